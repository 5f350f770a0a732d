package ttl

import (
	"context"
	"fmt"
	"maps"
	"path"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"ephor.invalid/ephor/internal/cleanup"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/schedule"
)

// watcher holds the objects of one resource whose time ends.
type watcher struct {
	*Manager
	resource schema.GroupVersionResource
	listed   atomic.Bool // the objects are known

	mu    sync.Mutex
	items map[types.NamespacedName]*item
	found map[types.NamespacedName]bool // during a list
}

// item is an object with a readable label.
type item struct {
	object cleanup.Object
	due    time.Time
	pause  time.Time // the next attempt, after one that failed
}

func newWatcher(m *Manager, r schema.GroupVersionResource) *watcher {
	return &watcher{Manager: m, resource: r, items: map[types.NamespacedName]*item{}}
}

// source follows the objects. After each change the resource is reconciled; with a limit, only after a list, and then once in each interval.
func (w *watcher) source() controller.Source {
	r := &controller.Reflector[*metav1.PartialObjectMetadata]{
		From: controller.From(w.Metadata.Resource(w.resource)), Options: metav1.ListOptions{LabelSelector: schedule.TTLLabel},
		Sink: w.sink(), After: []string{w.resource.String()},
	}
	if w.MaxDeletions == 0 {
		r.Key = func(*metav1.PartialObjectMetadata) string { return w.resource.String() }
	}
	return r
}

func (w *watcher) sink() controller.Sink[*metav1.PartialObjectMetadata] {
	return controller.Sink[*metav1.PartialObjectMetadata]{
		Begin:  w.begin,
		Seen:   func(o *metav1.PartialObjectMetadata) error { w.set(o); return nil },
		Gone:   w.forget,
		Listed: func(string) error { w.dropUnfound(); return nil },
		Failed: func(err error, _ time.Duration) {
			w.Log.Debug("cannot watch TTL labels at present", "resource", w.resource.String(), "error", err)
		},
	}
}

// begin notes that a list begins.
func (w *watcher) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = map[types.NamespacedName]bool{}
}

// dropUnfound forgets the objects that are not in the list, which has ended.
func (w *watcher) dropUnfound() {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.items, func(key types.NamespacedName, _ *item) bool { return !w.found[key] })
	w.found = nil
	w.listed.Store(true)
}

// set adds or replaces an object.
func (w *watcher) set(o *metav1.PartialObjectMetadata) {
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	now, err := w.read(o)
	w.mu.Lock()
	if w.found != nil {
		w.found[key] = true
	}
	old := w.items[key]
	switch {
	case err != nil || now == nil:
		delete(w.items, key)
	default:
		if old != nil && old.object.UID == now.object.UID && old.due.Equal(now.due) {
			now.pause = old.pause
		}
		w.items[key] = now
	}
	w.mu.Unlock()
	if err != nil {
		w.Log.Debug("a TTL label cannot be read", "resource", w.resource.String(), "object", key.String(), "error", err)
	}
}

// read returns the object as an item; nil if it is being deleted.
func (w *watcher) read(o *metav1.PartialObjectMetadata) (*item, error) {
	value, labelled := o.Labels[schedule.TTLLabel]
	if o.DeletionTimestamp != nil || !labelled {
		return nil, nil
	}
	due, err := schedule.EndOfLife(value, o.CreationTimestamp.Time)
	if err != nil {
		return nil, err
	}
	now := &item{due: due, object: cleanup.Object{
		Resource: w.resource, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), ResourceVersion: o.ResourceVersion,
	}}
	switch p, given := o.Annotations[schedule.PropagationAnnotation]; metav1.DeletionPropagation(p) {
	case metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan:
		now.object.Propagation = p
	default:
		if given {
			w.Log.Warn("a propagation policy is not Foreground, Background or Orphan", "resource", w.resource.String(), "object", o.Namespace+"/"+o.Name, "value", p)
		}
	}
	return now, nil
}

// forget removes an object that was deleted.
func (w *watcher) forget(o *metav1.PartialObjectMetadata) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.items, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
}

// shortestWait prevents rounds in a tight loop when the clock is slightly behind.
const shortestWait = 20 * time.Millisecond

// round deletes due objects and returns when to check again; 0 to wait for a change.
func (w *watcher) round(ctx context.Context) (next time.Duration) {
	due, next := w.pending(w.Now())
	if w.MaxDeletions > 0 {
		next = w.Every
		if len(due) > w.MaxDeletions {
			w.refuse(len(due))
			return next
		}
	}
	for _, i := range due {
		if ctx.Err() != nil {
			return 0
		}
		held, release, ok := w.Share.Hold(ctx, w.key(i))
		if !ok {
			continue // it now belongs to another replica
		}
		gone := w.remove(held, i)
		release()
		w.Observer.Reconciled(w.name())
		if gone || ctx.Err() != nil {
			continue
		}
		w.Observer.Requeued(w.name(), 1)
		if next == 0 || w.Every < next {
			next = w.Every
		}
	}
	return next
}

// name returns the name of the resource's controller in metrics: its group (if any), version and plural.
func (w *watcher) name() string {
	return path.Join(w.resource.Group, w.resource.Version, w.resource.Resource)
}

// key returns the key by which replicas share an item: its own, or one for all items if they are counted together.
func (w *watcher) key(i *item) string {
	if w.MaxDeletions > 0 {
		return w.resource.String()
	}
	return i.object.UID
}

// pending returns the due items of this replica, and the time until the next one is due.
func (w *watcher) pending(now time.Time) (due []*item, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.items {
		at := i.due
		if i.pause.After(at) {
			at = i.pause
		}
		switch wait := at.Sub(now); {
		case wait <= 0 && w.Share.Owns(w.key(i)):
			due = append(due, i)
		case wait <= 0: // another replica deletes it
		case next == 0 || wait < next:
			next = max(wait, shortestWait)
		}
	}
	return due, next
}

// refuse reports that the limit prevents all deletions.
func (w *watcher) refuse(n int) {
	w.Observer.TTLStopped(w.resource)
	w.Log.Warn("objects stay although their TTL is over", "resource", w.resource.String(), "deletions", n, "limit", w.MaxDeletions)
	w.Events.Record(event.Event{
		Regarding: event.Reference{APIVersion: "v1", Kind: "Namespace", Name: w.Namespace}, Type: event.Warning,
		Reason: event.DeletionLimit, Action: event.None, Controller: event.CleanupController,
		Note: fmt.Sprintf("nothing was deleted: the TTL of %d objects of %s is over, more than --maxDeletionsPerRun=%d", n, w.resource.GroupResource(), w.MaxDeletions),
	})
}

// attempts is how often an object is checked again if it changes between the decision and the deletion.
const attempts = 5

// remove deletes one object, and reports whether it is done with it.
func (w *watcher) remove(ctx context.Context, i *item) bool {
	o := i.object
	client := w.client(o.Namespace)
	var err error
	for range attempts {
		if err = cleanup.DeleteExactly(ctx, client.Delete, o); !apierrors.IsConflict(err) {
			break
		}
		var again *item
		if again, err = w.again(ctx, client, o); err != nil {
			break
		}
		if again == nil || again.object.UID != o.UID || again.due.After(w.Now()) {
			return true // its event will arrive soon
		}
		o, err = again.object, errBusy
	}
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		w.Observer.TTLDeleted(w.resource, o.Namespace)
		w.Log.Info("deleted because its TTL is over", "resource", w.resource.String(), "namespace", o.Namespace, "name", o.Name)
	case !apierrors.IsNotFound(err):
		w.Observer.TTLFailed(w.resource, o.Namespace)
		w.Log.Warn("cannot be deleted although its TTL is over", "resource", w.resource.String(), "namespace", o.Namespace, "name", o.Name, "error", err)
		w.mu.Lock()
		i.pause = w.Now().Add(w.Every)
		w.mu.Unlock()
		return false
	}
	w.mu.Lock()
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	if w.items[key] == i || w.items[key] != nil && w.items[key].object.UID == o.UID {
		delete(w.items, key)
	}
	w.mu.Unlock()
	return true
}

var errBusy = apierrors.NewConflict(schema.GroupResource{}, "", fmt.Errorf("it keeps changing"))

// again returns the current object; nil if it was deleted or has lost its label. It lists this one object, which requires only the right to
// list.
func (w *watcher) again(ctx context.Context, client metadata.ResourceInterface, o cleanup.Object) (*item, error) {
	list, err := client.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", o.Name).String()})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	now, err := w.read(&list.Items[0])
	if err != nil {
		return nil, nil //nolint:nilerr // an unreadable label is never due
	}
	return now, nil
}

func (w *watcher) client(namespace string) metadata.ResourceInterface {
	if namespace == "" {
		return w.Metadata.Resource(w.resource)
	}
	return w.Metadata.Resource(w.resource).Namespace(namespace)
}
