package execute

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/updaterequest"
)

// reads shares reads among the rules and triggers of an UpdateRequest during one pass: reads of triggers that several rules have in common,
// and of the names of triggers that are known only by UID.
type reads struct {
	from   *reader
	shared map[kyvernov2.ResourceSpec]*sharedRead // triggers of several rules
	wanted map[kindIn]map[types.UID]bool          // triggers without names

	mu     sync.Mutex
	names  map[kindIn]*sharedNames
	marked map[string]bool // UIDs of sources that already have the label
}

// kindIn is a kind in a namespace. An empty namespace stands for all namespaces, or for a cluster-wide kind.
type kindIn struct {
	gvk       schema.GroupVersionKind
	namespace string
}

// sharedRead is one shared read of an object.
type sharedRead struct {
	once   sync.Once
	object *unstructured.Unstructured
	err    error
}

// sharedNames holds the names of objects by UID, from one shared list.
type sharedNames struct {
	once sync.Once
	of   map[types.UID]client.ObjectKey
	err  error
}

// reads returns the shared reads for triggers.
func (x *reader) reads(triggers []kyvernov2.ResourceSpec) *reads {
	r := &reads{
		from: x, shared: map[kyvernov2.ResourceSpec]*sharedRead{}, wanted: map[kindIn]map[types.UID]bool{}, names: map[kindIn]*sharedNames{}, marked: map[string]bool{},
	}
	seen := map[kyvernov2.ResourceSpec]bool{}
	for _, t := range triggers {
		if seen[t] && r.shared[t] == nil {
			r.shared[t] = &sharedRead{}
		}
		seen[t] = true
		if t.Name == "" && t.UID != "" {
			in := kindOf(t)
			if r.wanted[in] == nil {
				r.wanted[in] = map[types.UID]bool{}
			}
			r.wanted[in][t.UID] = true
		}
	}
	return r
}

func kindOf(r kyvernov2.ResourceSpec) kindIn {
	return kindIn{schema.FromAPIVersionAndKind(r.APIVersion, r.Kind), r.Namespace}
}

// live reads a trigger from the API server, once for all rules. The result must not be modified.
func (r *reads) live(ctx context.Context, t kyvernov2.ResourceSpec) (*unstructured.Unstructured, error) {
	s := r.shared[t]
	if s == nil {
		return r.read(ctx, t)
	}
	s.once.Do(func() { s.object, s.err = r.read(ctx, t) })
	return s.object, s.err
}

func (r *reads) read(ctx context.Context, t kyvernov2.ResourceSpec) (*unstructured.Unstructured, error) {
	if t.Name == "" {
		if t.UID == "" {
			return nil, fmt.Errorf("read trigger %s: it has neither a name nor a UID", updaterequest.Text(t))
		}
		key, err := r.name(ctx, t)
		if err != nil {
			return nil, err
		}
		t.Namespace, t.Name = key.Namespace, key.Name
	}
	return r.from.live(ctx, t)
}

// name returns the name of an object that is known only by its UID.
func (r *reads) name(ctx context.Context, t kyvernov2.ResourceSpec) (client.ObjectKey, error) {
	in := kindOf(t)
	r.mu.Lock()
	names := r.names[in]
	if names == nil {
		names = &sharedNames{}
		r.names[in] = names
	}
	r.mu.Unlock()
	names.once.Do(func() { names.of, names.err = r.from.namesOf(ctx, in, r.wanted[in]) })
	if names.err != nil {
		return client.ObjectKey{}, names.err
	}
	key, ok := names.of[t.UID]
	if !ok {
		return key, goneError{t}
	}
	return key, nil
}

// unmarked reports whether a source may not have its label yet.
func (r *reads) unmarked(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.marked[uid]
}

func (r *reads) mark(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marked[uid] = true
}

// namesOf lists a kind until it has found all UIDs.
func (x *reader) namesOf(ctx context.Context, in kindIn, wanted map[types.UID]bool) (map[types.UID]client.ObjectKey, error) {
	out := map[types.UID]client.ObjectKey{}
	err := updaterequest.Each(ctx, x.client, updaterequest.MetadataOf(in.gvk), &client.ListOptions{Namespace: in.namespace}, func(o *metav1.PartialObjectMetadata) bool {
		if wanted[o.UID] {
			out[o.UID] = client.ObjectKeyFromObject(o)
		}
		return len(out) < len(wanted)
	})
	return out, err
}
