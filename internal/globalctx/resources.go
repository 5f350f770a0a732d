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

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/listwatch"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// pageSize bounds the number of objects in one page of a list.
const pageSize = 250

// overload is the pause before resources that exceeded the capacity are listed again, unless another entry releases its resources.
const overload = 5 * time.Minute

// watched is a source for the resources of one kind, which are listed and then watched. It is the store of a reflector.
type watched struct {
	client   dynamic.ResourceInterface
	capacity *capacity
	log      *slog.Logger
	kind     string // the name in messages
	*publisher

	mu sync.Mutex
	// objects are sorted by namespace and name; invalid while the resources are not listed.
	objects []object
	listed  bool
	held    int // the size of the objects in bytes, counted in capacity
	ended   bool
	// stop ends the current list and watch.
	stop context.CancelCauseFunc
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

var _ toolscache.ReflectorStore = (*watched)(nil)

func watchResources(ctx context.Context, s *Store, r *globalentry.Resource, p *publisher) *watched {
	kind := r.APIVersion + " " + r.Resource
	w := &watched{capacity: s.capacity, publisher: p, log: s.Log.With("resources", kind), kind: kind}
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
	go w.run(ctx)
	return w
}

func (w *watched) data() *data { return w.get() }

// run follows the resources until ctx is done. If they exceed the capacity, it releases them and tries again later.
func (w *watched) run(ctx context.Context) {
	logger := logr.FromSlogHandler(w.log.Handler()).V(1)
	r := toolscache.NewReflectorWithOptions(w, nil, w, toolscache.ReflectorOptions{Name: "global-context", TypeDescription: w.kind, Logger: &logger})
	outage := firstPause
	for {
		var term context.Context
		term, w.stop = context.WithCancelCause(ctx)
		var room <-chan struct{} // closed when there may be enough
		began := time.Now()
		err := r.ListAndWatchWithContext(term) // nil when a watch ended
		if time.Since(began) >= longestOutage {
			outage = firstPause // a watch that ends at once is no sign that the next one lasts
		}
		next := outage
		switch {
		case ctx.Err() != nil:
		case errors.As(context.Cause(term), new(*tooLargeError)), err != nil && w.broken(err):
			next, room = overload, w.capacity.later()
		default:
			outage = min(2*outage, longestOutage)
		}
		w.stop(nil)
		if !pause(ctx, next, room) {
			return
		}
	}
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
	w.stop(err)
}

// List implements toolscache.ListerWatcher. It reads page by page, as long as there is room.
func (w *watched) List(o metav1.ListOptions) (runtime.Object, error) {
	return w.ListWithContext(context.Background(), o)
}

// ListWithContext implements toolscache.ListerWatcherWithContext.
func (w *watched) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	// Resource version 0 would return the whole list in one answer.
	o = metav1.ListOptions{Limit: pageSize, TimeoutSeconds: o.TimeoutSeconds}
	out := &unstructured.UnstructuredList{}
	room := w.room()
	for {
		page, err := w.client.List(ctx, o)
		if listwatch.GoesOn(err, &o.Continue) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			strip(&page.Items[i])
			if room -= value.Size(page.Items[i].Object, room); room < 0 {
				return nil, &tooLargeError{w.capacity.max}
			}
		}
		out.Items = append(out.Items, page.Items...)
		if o.Continue = page.GetContinue(); o.Continue == "" {
			out.Object = page.Object
			return out, nil
		}
	}
}

// room returns the capacity for a new list: the free capacity, and that of the list that it replaces.
func (w *watched) room() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.capacity.mu.Lock()
	defer w.capacity.mu.Unlock()
	return w.capacity.max - w.capacity.used + w.held
}

// Watch implements toolscache.ListerWatcher.
func (w *watched) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return w.WatchWithContext(context.Background(), o)
}

// WatchWithContext implements toolscache.ListerWatcherWithContext.
func (w *watched) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return w.client.Watch(ctx, o)
}

// IsWatchListSemanticsUnSupported makes the reflector use a list, since only a list supports a limit.
func (w *watched) IsWatchListSemanticsUnSupported() bool { return true }

// strip removes managedFields, often the largest part of an object.
func strip(u *unstructured.Unstructured) { u.SetManagedFields(nil) }

// Add implements toolscache.ReflectorStore.
func (w *watched) Add(obj any) error { return w.Update(obj) }

// Update implements toolscache.ReflectorStore.
func (w *watched) Update(obj any) error {
	o, err := w.object(obj)
	if err != nil {
		return err
	}
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

// Delete implements toolscache.ReflectorStore.
func (w *watched) Delete(obj any) error {
	o, err := w.object(obj)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	i, known := slices.BinarySearchFunc(w.objects, o, compare)
	if !known || !w.listed {
		return nil
	}
	w.held -= w.objects[i].bytes
	_ = w.capacity.add(-w.objects[i].bytes)
	w.objects = slices.Delete(w.objects, i, i+1)
	w.publish(w.get().refreshed)
	return nil
}

// Replace implements toolscache.ReflectorStore.
func (w *watched) Replace(list []any, _ string) error {
	objects, total := make([]object, len(list)), 0
	for i, obj := range list {
		o, err := w.object(obj)
		if err != nil {
			return err
		}
		objects[i] = o
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

// Resync implements toolscache.ReflectorStore.
func (w *watched) Resync() error { return nil }

func (w *watched) object(obj any) (object, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return object{}, fmt.Errorf("a %T is not a resource", obj)
	}
	strip(u)
	return object{u.GetNamespace(), u.GetName(), u.Object, value.Size(u.Object, w.capacity.max+1)}, nil
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
