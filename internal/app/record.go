package app

import (
	"context"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/updaterequest/follow"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// record is the record of generated objects. All replicas write it and follow it.
type record struct {
	origin  *origin.Record
	changed *controller.Signal
	// metadata follows the ConfigMaps that hold the record, and the recorded objects.
	metadata  metadata.Interface
	namespace string
	log       *slog.Logger
}

// newRecord reads the stored record.
func newRecord(ctx context.Context, b *base, namespace string, c client.Client) (*record, error) {
	r := &record{changed: &controller.Signal{}, namespace: namespace, log: b.log}
	r.origin = origin.New(origin.Options{Client: c, Namespace: namespace, Changed: r.changed.Fire, Log: b.log})
	var err error
	if r.metadata, err = metadata.NewForConfig(b.metadataConfig); err != nil {
		return nil, err
	}
	return r, r.origin.Load(ctx)
}

// watch follows the metadata of a resource.
func (r *record) watch(gvr schema.GroupVersionResource, h follow.Handler) func(context.Context) {
	return func(ctx context.Context) {
		r.log.Debug("watching generated objects or sources of copies", "resource", gvr.String())
		(&controller.Reflector[*metav1.PartialObjectMetadata]{From: controller.From(r.metadata.Resource(gvr)), Sink: controller.Sink[*metav1.PartialObjectMetadata]{
			Begin:  h.Begin,
			Seen:   func(o *metav1.PartialObjectMetadata) error { h.Seen(string(o.UID), o.ResourceVersion); return nil },
			Gone:   func(o *metav1.PartialObjectMetadata) { h.Gone(string(o.UID)) },
			Listed: func(string) error { h.Listed(); return nil },
			Failed: h.Failed,
		}}).Run(ctx)
	}
}

// run merges the objects of other replicas.
func (r *record) run(ctx context.Context) {
	maps := r.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(r.namespace)
	selected := metav1.ListOptions{LabelSelector: origin.RecordLabel + "=" + origin.RecordValue}
	stored := func(o *metav1.PartialObjectMetadata) error {
		r.origin.Stored(ctx, o.Name, o.ResourceVersion)
		return nil
	}
	gone := func(o *metav1.PartialObjectMetadata) { r.origin.Stored(ctx, o.Name, "") }
	failed := func(err error, pause time.Duration) {
		r.log.Warn("the record of generated objects is not followed: this replica does not see what other replicas add to it", "again", pause, "error", err)
	}
	(&controller.Reflector[*metav1.PartialObjectMetadata]{
		From: controller.From(maps), Options: selected, Sink: controller.Sink[*metav1.PartialObjectMetadata]{Seen: stored, Gone: gone, Failed: failed},
	}).Run(ctx)
}
