package generated

import (
	"context"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/updaterequest/follow"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// Record is the record of generated objects. All replicas write it and follow it.
type Record struct {
	*origin.Record
	changed *controller.Signal
	// metadata follows the ConfigMaps that hold the record, and the recorded objects.
	metadata  metadata.Interface
	namespace string
	log       *slog.Logger
}

// NewRecord reads the stored record.
func NewRecord(ctx context.Context, cfg *rest.Config, namespace string, c client.Client, log *slog.Logger) (*Record, error) {
	r := &Record{changed: &controller.Signal{}, namespace: namespace, log: log}
	r.Record = origin.New(origin.Options{Client: c, Namespace: namespace, Changed: r.changed.Fire, Log: log})
	var err error
	if r.metadata, err = metadata.NewForConfig(controller.Paged(cfg)); err != nil {
		return nil, err
	}
	return r, r.Load(ctx)
}

// Rows returns the row that merges and writes the record, and that of the leader, which watches the objects of synchronized rules.
func (r *Record) Rows(f *follow.Follower, c *catalog.Catalog) []controller.Row {
	watcher := &follow.Watcher{Follower: f, Watch: r.watch, Wake: r.changed.Fire, Log: r.log}
	return []controller.Row{
		{Name: "generated-objects-record", Sources: []controller.Source{r.changed, controller.Forever(r.run)}, Reconcile: controller.Singleton(r.Reconcile)},
		{Name: "generated-objects", Owner: controller.Leader, Sources: []controller.Source{c, r.changed, &watcher.Watches}, Reconcile: controller.Singleton(watcher.Once)},
	}
}

// watch follows the metadata of a resource.
func (r *Record) watch(gvr schema.GroupVersionResource, sink controller.Sink[*metav1.PartialObjectMetadata]) controller.Source {
	r.log.Debug("watching generated objects or sources of copies", "resource", gvr.String())
	return &controller.Reflector[*metav1.PartialObjectMetadata]{From: controller.From(r.metadata.Resource(gvr)), Sink: sink}
}

// run merges the objects of other replicas.
func (r *Record) run(ctx context.Context) {
	maps := r.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(r.namespace)
	selected := metav1.ListOptions{LabelSelector: origin.RecordLabel + "=" + origin.RecordValue}
	var listed map[string]bool
	begin := func() { listed = map[string]bool{} }
	stored := func(o *metav1.PartialObjectMetadata) error {
		listed[o.Name] = true
		return r.Stored(ctx, o.Name, o.ResourceVersion)
	}
	rest := func(string) error { // those that are not listed were deleted
		for i := range origin.Shards {
			if name := origin.Name(i); !listed[name] {
				if err := r.Stored(ctx, name, ""); err != nil {
					return err
				}
			}
		}
		return nil
	}
	gone := func(o *metav1.PartialObjectMetadata) {
		if err := r.Stored(ctx, o.Name, ""); err != nil && ctx.Err() == nil {
			r.log.Warn("the record of generated objects could not be read", "error", err)
		}
	}
	failed := func(err error, pause time.Duration) {
		r.log.Warn("the record of generated objects is not followed: this replica does not see what other replicas add to it", "again", pause, "error", err)
	}
	(&controller.Reflector[*metav1.PartialObjectMetadata]{
		From: controller.From(maps), Options: selected, Sink: controller.Sink[*metav1.PartialObjectMetadata]{Begin: begin, Seen: stored, Listed: rest, Gone: gone, Failed: failed},
	}).Run(ctx)
}
