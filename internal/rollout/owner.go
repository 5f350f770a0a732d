package rollout

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/compliance"
)

// Meta is the metadata that is read from an object.
type Meta struct {
	Namespace, UID string
	Labels         map[string]string
	Annotations    map[string]string
	Owners         []metav1.OwnerReference
}

// Owners finds the owner of a resource: it follows the owner references up to the object without an owner, and looks for a label there,
// then down the chain, then on the namespace.
type Owners struct {
	// Read reads an object; found is false if it does not exist. It is called concurrently.
	Read func(ctx context.Context, r compliance.Resource) (m Meta, found bool, err error)
	// Label is the label that names the owner; empty for none.
	Label string
	// Limit is the maximum number of objects to read. Each is read once.
	Limit int

	mu    sync.Mutex
	known map[ownerKey]*reading
	reads atomic.Int64
}

type ownerKey struct{ apiVersion, kind, namespace, name string }

// reading is an object whose read has started or finished.
type reading struct {
	done  chan struct{}
	meta  Meta
	found bool
	err   error
}

const (
	// ownersAtOnce is the number of resources that are followed at the same time.
	ownersAtOnce = 8
	// maxChain is the maximum number of owners to follow: a chain has three or four, and an endless one is a mistake.
	maxChain = 10
)

// errLimit is returned when the limit of reads is reached.
var errLimit = fmt.Errorf("too many objects")

// Own sets the owners of the denied resources, and removes superseded ones. A resource whose owner cannot be read stays without an owner,
// and p says how many there are.
func (p *Plan) Own(ctx context.Context, o *Owners) {
	superseded := make([]bool, len(p.Refused))
	var over, failed atomic.Int64
	var first atomic.Value
	var group errgroup.Group
	group.SetLimit(ownersAtOnce)
	failure := func(err error) {
		switch {
		case err == errLimit:
			over.Add(1)
		case err != nil:
			failed.Add(1)
			first.CompareAndSwap(nil, err.Error())
		}
	}
	for i := range p.Refused {
		group.Go(func() error {
			var err error
			superseded[i], err = o.of(ctx, &p.Refused[i])
			failure(err)
			return nil
		})
	}
	for i := range p.Callers {
		group.Go(func() error {
			failure(o.call(ctx, &p.Callers[i]))
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	p.leave(superseded)
	if n := over.Load(); n > 0 {
		p.lack(false, fmt.Sprintf("the owners of %s: --owner-reads bounds how many objects are read", resources(int(n))))
	}
	if n := failed.Load(); n > 0 {
		p.lack(false, fmt.Sprintf("the owners of %s: %s", resources(int(n)), first.Load()))
	}
	if o.Label == "" && len(p.Refused)+len(p.Callers) > 0 {
		p.lack(false, "whose the resources are: --owner-label names the label of the owner, or of the namespace, that says so")
	}
}

// leave removes superseded resources from the plan.
func (p *Plan) leave(superseded []bool) {
	var kept []Refused
	for i, r := range p.Refused {
		if !superseded[i] {
			kept = append(kept, r)
			continue
		}
		at := slices.IndexFunc(p.Namespaces, func(n Namespace) bool { return n.Name == r.Resource.Namespace })
		n := &p.Namespaces[at]
		n.Superseded++
		n.Violating--
		n.Resources--
		n.settle()
	}
	p.Refused = append([]Refused{}, kept...)
}

// revisionAnnotation is the annotation in which the Deployment controller counts revisions, on a Deployment and on its ReplicaSets.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// of follows one resource. superseded: it belongs to an earlier revision of a Deployment, such as a ReplicaSet that is not created again;
// if that revision returns, the Deployment itself is denied.
func (o *Owners) of(ctx context.Context, r *Refused) (superseded bool, err error) {
	c, err := o.follow(ctx, r.Resource, nil)
	if err != nil {
		return false, err
	}
	r.Owner = &c.end
	r.Whose, err = o.whose(ctx, r.Resource.Namespace, c.labels)
	return c.superseded, err
}

// Of follows one resource, and returns the end of its chain and the value of the owner label. own is the known metadata of the resource
// itself, which may no longer exist.
func (o *Owners) Of(ctx context.Context, r compliance.Resource, own Meta) (owner compliance.Resource, whose string, err error) {
	c, err := o.follow(ctx, r, &own)
	if err != nil {
		return r, "", err
	}
	if len(c.labels) == 0 {
		c.labels = append(c.labels, own.Labels)
	}
	whose, err = o.whose(ctx, r.Namespace, c.labels)
	return c.end, whose, err
}

// chain holds the owners that were found above a resource.
type chain struct {
	end        compliance.Resource
	labels     []map[string]string // of the objects in the chain, the resource first
	superseded bool
}

// follow follows the owners of a resource. own is its known metadata, for a resource that no longer exists; nil for none.
func (o *Owners) follow(ctx context.Context, r compliance.Resource, own *Meta) (c chain, err error) {
	at := r
	seen := map[ownerKey]bool{}
	var below Meta
	for range maxChain {
		meta, found, err := o.read(ctx, at)
		if err != nil {
			return c, err
		}
		// A deleted resource, and an owner that was replaced by another object with the same name, have no further owners.
		if !found || at.UID != "" && meta.UID != at.UID {
			if own == nil || len(c.labels) > 0 {
				break
			}
			meta = *own
			meta.Namespace = at.Namespace
		}
		at.Namespace = meta.Namespace // an owner may be cluster-scoped
		if r.Kind == "ReplicaSet" && at.Kind == "Deployment" && len(c.labels) == 1 {
			own, current := below.Annotations[revisionAnnotation], meta.Annotations[revisionAnnotation]
			c.superseded = own != "" && current != "" && own != current
		}
		below = meta
		c.labels = append(c.labels, meta.Labels)
		up := meta.Controller()
		seen[key(at)] = true
		if up == nil {
			break
		}
		next := compliance.Resource{APIVersion: up.APIVersion, Kind: up.Kind, Namespace: r.Namespace, Name: up.Name, UID: string(up.UID)}
		if seen[key(next)] {
			break
		}
		at = next
	}
	c.end = at
	return c, nil
}

// whose looks for the label on the objects of a chain, the last owner first, and then on the namespace.
func (o *Owners) whose(ctx context.Context, namespace string, chain []map[string]string) (string, error) {
	if o.Label == "" {
		return "", nil
	}
	for _, labels := range slices.Backward(chain) {
		if whose := labels[o.Label]; whose != "" {
			return whose, nil
		}
	}
	if namespace == "" {
		return "", nil
	}
	meta, _, err := o.read(ctx, compliance.Resource{APIVersion: "v1", Kind: "Namespace", Name: namespace})
	return meta.Labels[o.Label], err
}

// Controller returns the owner that manages the object, otherwise the first owner; nil without an owner.
func (m Meta) Controller() *metav1.OwnerReference {
	owners := m.Owners
	for i := range owners {
		if owners[i].Controller != nil && *owners[i].Controller {
			return &owners[i]
		}
	}
	if len(owners) == 0 {
		return nil
	}
	return &owners[0]
}

func key(r compliance.Resource) ownerKey { return ownerKey{r.APIVersion, r.Kind, r.Namespace, r.Name} }

// read reads each object once, even if several callers request it.
func (o *Owners) read(ctx context.Context, r compliance.Resource) (Meta, bool, error) {
	k := key(r)
	o.mu.Lock()
	if o.known == nil {
		o.known = map[ownerKey]*reading{}
	}
	known, ok := o.known[k]
	if !ok {
		known = &reading{done: make(chan struct{})}
		o.known[k] = known
	}
	o.mu.Unlock()
	if ok {
		<-known.done
		return known.meta, known.found, known.err
	}
	defer close(known.done)
	if o.reads.Add(1) > int64(o.Limit) {
		known.err = errLimit
	} else {
		known.meta, known.found, known.err = o.Read(ctx, r)
	}
	return known.meta, known.found, known.err
}
