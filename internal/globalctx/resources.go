package globalctx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// pageSize bounds the number of objects in one page of a list.
const pageSize = 250

// overload is the pause before resources that exceeded the capacity are listed again, unless another entry releases its resources.
const overload = 5 * time.Minute

// watched is a source for the resources of one kind, which are listed and then watched.
type watched struct {
	client   dynamic.ResourceInterface
	capacity *capacity
	log      *slog.Logger
	kind     string // the name in messages
	*publisher
	controller.Source

	mu sync.Mutex
	// objects are sorted by namespace and name; invalid while the resources are not listed.
	objects []object
	listed  bool
	held    int // the size of the objects in bytes, counted in capacity
	ended   bool
}

type object struct {
	namespace, name string
	value           map[string]any
	bytes           int
}

func compare(a, b object) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// errNotListed is the error for a reader whose data are released while it reads.
var errNotListed = errors.New("the resources are being listed again")

func watchResources(s *Store, r *globalentry.Resource, p *publisher) *watched {
	kind := r.APIVersion + " " + r.Resource
	w := &watched{capacity: s.capacity, publisher: p, Source: controller.Forever(func(context.Context) {}), log: s.Log.With("resources", kind), kind: kind}
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err == nil && s.Resources == nil {
		err = fmt.Errorf("resources are %w", world.ErrUnavailable)
	}
	if err != nil {
		w.put(&data{err: err})
		return w
	}
	resources := s.Resources.Resource(gv.WithResource(r.Resource))
	w.client = resources
	if r.Namespace != "" {
		w.client = resources.Namespace(r.Namespace)
	}
	w.Source = controller.Forever(w.run)
	return w
}

func (w *watched) data() *data { return w.get() }

// run follows the resources until ctx is done. If they exceed the capacity, it releases them and tries again later.
func (w *watched) run(ctx context.Context) {
	var read []object // by the current list
	room, listing := 0, false
	r := controller.Reflector[*unstructured.Unstructured]{
		From: controller.From(w.client), Options: metav1.ListOptions{Limit: pageSize}, Pause: controller.Pause{First: firstPause, Longest: longestOutage},
	}
	r.Sink = controller.Sink[*unstructured.Unstructured]{
		Begin: func() { read, room, listing = nil, w.room(), true },
		Seen: func(u *unstructured.Unstructured) error {
			o := w.object(u)
			if !listing {
				return w.update(o)
			}
			if room -= o.bytes; room < 0 {
				return &tooLargeError{w.capacity.max}
			}
			read = append(read, o)
			return nil
		},
		Listed: func(string) error {
			listing = false
			defer func() { read = nil }()
			return w.replace(read)
		},
		Gone: func(u *unstructured.Unstructured) { w.remove(w.object(u)) },
		Failed: func(err error, next time.Duration) {
			read = nil
			what := "watch"
			if listing {
				what = "list"
			}
			if cause := errors.Unwrap(err); cause != nil {
				err = fmt.Errorf("failed to %s %s: %w", what, w.kind, cause)
			}
			if w.broken(err) {
				controller.SleepUnless(ctx, overload-next, w.capacity.later())
			}
		},
	}
	r.Run(ctx)
}

// end releases the resources at once: the entry that replaces this one may need their room. The list and watch end soon after.
func (w *watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.clear()
}

// broken classifies the failure of a list or a watch, and reports whether the data were too large. If the failure may only be a lost
// connection, it leaves the data as they are, because the process that evaluates requests uses the same connection to the API server.
func (w *watched) broken(err error) (tooLarge bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.As(err, new(*tooLargeError)):
		w.overloaded(err)
		return true
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		w.clear()
		w.fail(fmt.Errorf("permission denied: %w", err))
	case apierrors.IsNotFound(err), !w.listed:
		w.clear()
		w.fail(err)
	default:
		w.log.Warn("global context data cannot be refreshed", "error", err)
	}
	return false
}

// overloaded releases all objects at once, since missing ones would count as "no match". The caller holds w.mu.
func (w *watched) overloaded(err error) {
	w.clear()
	w.fail(err)
}

// room returns the capacity for a new list: the free capacity, and that of the list that it replaces.
func (w *watched) room() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.capacity.mu.Lock()
	defer w.capacity.mu.Unlock()
	return w.capacity.max - w.capacity.used + w.held
}

// update adds or replaces an object.
func (w *watched) update(o object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.listed {
		return errNotListed
	}
	i, known := slices.BinarySearchFunc(w.objects, o, compare)
	grown := o.bytes
	if known {
		grown -= w.objects[i].bytes
	}
	if err := w.capacity.add(grown); err != nil {
		w.overloaded(err)
		return err
	}
	w.held += grown
	if known {
		w.objects[i] = o
	} else {
		w.objects = slices.Insert(w.objects, i, o)
	}
	w.publish(w.get().refreshed)
	return nil
}

// remove removes an object.
func (w *watched) remove(o object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, known := slices.BinarySearchFunc(w.objects, o, compare)
	if !known || !w.listed {
		return
	}
	w.held -= w.objects[i].bytes
	_ = w.capacity.add(-w.objects[i].bytes)
	w.objects = slices.Delete(w.objects, i, i+1)
	w.publish(w.get().refreshed)
}

// replace replaces all objects by those of a list.
func (w *watched) replace(objects []object) error {
	total := 0
	for _, o := range objects {
		total += o.bytes
	}
	slices.SortFunc(objects, compare)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return errNotListed
	}
	if err := w.capacity.add(total - w.held); err != nil {
		w.overloaded(err)
		return err
	}
	w.objects, w.held, w.listed = objects, total, true
	w.publish(w.now())
	return nil
}

// object returns an object without managedFields, often its largest part.
func (w *watched) object(u *unstructured.Unstructured) object {
	u.SetManagedFields(nil)
	return object{u.GetNamespace(), u.GetName(), u.Object, value.Size(u.Object, w.capacity.max+1)}
}

// publish replaces the data by the current objects; the list is computed at the first read. The caller holds w.mu.
func (w *watched) publish(refreshed time.Time) {
	d := &data{refreshed: refreshed, make: w.list}
	if last := w.current.Load(); last != nil && last.err == nil && last.refreshed.Equal(refreshed) {
		w.current.Store(d) // the state is unchanged, so Changed need not be called
		return
	}
	w.put(d)
}

// list returns the current list of the objects, which may be slightly newer than its data.
func (w *watched) list() (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.listed {
		return nil, errNotListed
	}
	out := make([]any, len(w.objects))
	for i := range w.objects {
		out[i] = w.objects[i].value
	}
	return out, nil
}

// clear releases all objects. The caller holds w.mu.
func (w *watched) clear() {
	w.capacity.free(w.held)
	w.objects, w.held, w.listed = nil, 0, false
}
