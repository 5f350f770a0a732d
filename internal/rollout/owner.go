package rollout

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ephor-dev/ephor/internal/compliance"
)

// Meta is what is read of an object.
type Meta struct {
	Namespace, UID string
	Labels         map[string]string
	Annotations    map[string]string
	Owners         []metav1.OwnerReference
}

// Owners finds out whose a resource is: it follows the references to owners up to the one without an owner, and looks for a
// label there, then down the chain, then on the namespace.
type Owners struct {
	// Read reads an object; found is false when it does not exist (any more). It is called by several goroutines.
	Read func(ctx context.Context, r compliance.Resource) (m Meta, found bool, err error)
	// Label is the one that says whose it is; empty if not requested.
	Label string
	// Limit is how many objects are read. Each is read once.
	Limit int

	mu    sync.Mutex
	known map[ownerKey]*reading
	reads atomic.Int64
}

type ownerKey struct{ apiVersion, kind, namespace, name string }

// reading is an object that is being read, or was read.
type reading struct {
	done  chan struct{}
	meta  Meta
	found bool
	err   error
}

const (
	// ownersAtOnce is how many resources are followed at the same time.
	ownersAtOnce = 8
	// maxChain is how many owners are followed: a chain is three or four long, and one that never ends is a mistake.
	maxChain = 10
)

// errLimit is given instead of a read too many.
var errLimit = fmt.Errorf("too many objects")

// Own says whose the refused resources are, and takes away those that are superseded. Those whose owner cannot be read are
// listed without, and p says how many.
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
	_ = group.Wait() // none of them gives up
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

// leave takes superseded resources out of the plan.
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

// revisionAnnotation is what the Deployment controller counts revisions with, on a Deployment and on its ReplicaSets.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// of follows one resource. superseded is what is left of an earlier revision of a Deployment: a ReplicaSet that is not
// created again; if it returns, the Deployment itself is denied.
func (o *Owners) of(ctx context.Context, r *Refused) (superseded bool, err error) {
	c, err := o.follow(ctx, r.Resource, nil)
	if err != nil {
		return false, err
	}
	r.Owner = &c.end
	r.Whose, err = o.whose(ctx, r.Resource.Namespace, c.labels)
	return c.superseded, err
}

// Of follows one resource, and returns the end of its chain and whose that is. own is what is known of the resource itself, which need not
// exist any more.
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

// chain is what was found above a resource.
type chain struct {
	end        compliance.Resource
	labels     []map[string]string // of the chain, the resource first
	superseded bool
}

// follow follows the owners of a resource. own is what is known of it where it does not exist; nil for nothing.
func (o *Owners) follow(ctx context.Context, r compliance.Resource, own *Meta) (c chain, err error) {
	at := r
	seen := map[ownerKey]bool{}
	var below Meta
	for range maxChain {
		meta, found, err := o.read(ctx, at)
		if err != nil {
			return c, err
		}
		// A resource that is gone, and an owner that is another one of the same name, has no further owners.
		if !found || at.UID != "" && meta.UID != at.UID {
			if own == nil || len(c.labels) > 0 {
				break
			}
			meta = *own
			meta.Namespace = at.Namespace
		}
		at.Namespace = meta.Namespace // an owner may lie in none
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

// whose looks for the label on a chain, the last owner first, and then on the namespace.
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

// Controller is the owner that manages the object or, when none does, the first one; nil without an owner.
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

// read reads each object once, however many ask for it.
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
