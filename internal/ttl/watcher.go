package ttl

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/cleanup"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/schedule"
)

// watcher deletes the objects of one resource.
type watcher struct {
	*Manager
	resource schema.GroupVersionResource
	stop     context.CancelFunc
	wake     chan struct{}

	mu    sync.Mutex
	items map[types.NamespacedName]*item
}

// item is an object with a readable label.
type item struct {
	object cleanup.Object
	due    time.Time
	pause  time.Time // the next attempt, after one that failed
}

func newWatcher(m *Manager, r schema.GroupVersionResource) *watcher {
	return &watcher{Manager: m, resource: r, wake: make(chan struct{}, 1), items: map[types.NamespacedName]*item{}}
}

// run watches and deletes until ctx is done.
func (w *watcher) run(ctx context.Context) {
	informer := metadatainformer.NewFilteredMetadataInformer(w.Metadata, w.resource, metav1.NamespaceAll, 0, toolscache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = schedule.TTLLabel }).Informer()
	_ = informer.SetTransform(reduce)
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) {
		w.Log.Debug("cannot watch TTL labels at present", "resource", w.resource.String(), "error", err)
	})
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: w.set, UpdateFunc: func(_, obj any) { w.set(obj) }, DeleteFunc: w.forget,
	})
	if err != nil {
		w.Log.Error("TTL labels are not watched", "resource", w.resource.String(), "error", err)
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.RunWithContext(ctx) })
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return
	}
	for {
		changed := w.Share.Changed()
		next := w.round(ctx)
		var timer <-chan time.Time
		if next > 0 {
			timer = time.After(min(next, w.Every)) // the wall clock may change meanwhile
		}
		wake := w.wake
		if w.MaxDeletions > 0 {
			wake, changed = nil, nil // with a limit, only the interval starts rounds
		}
		select {
		case <-ctx.Done():
			return
		case <-timer:
		case <-changed:
		case <-wake:
		}
	}
}

// reduce keeps only the fields of an object that its deletion needs.
func reduce(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		kept := metav1.ObjectMeta{
			Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
			CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp,
			Labels: map[string]string{schedule.TTLLabel: o.Labels[schedule.TTLLabel]},
		}
		if v, ok := o.Annotations[schedule.PropagationAnnotation]; ok {
			kept.Annotations = map[string]string{schedule.PropagationAnnotation: v}
		}
		o.ObjectMeta = kept
	}
	return obj, nil
}

func (w *watcher) set(obj any) {
	o, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	now, err := w.read(o)
	w.mu.Lock()
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
	select {
	case w.wake <- struct{}{}:
	default:
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

func (w *watcher) forget(obj any) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		w.mu.Lock()
		delete(w.items, types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
		w.mu.Unlock()
	}
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
		case wait <= 0 && w.Share.Holds(w.key(i)):
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
