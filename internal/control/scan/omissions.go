package scan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/scan"
	"ephor.invalid/ephor/internal/status"
)

// WriteOmissions returns the Reconcile that writes to the status of each policy which objects or kinds the scans skip.
func WriteOmissions(s *scan.Scanner, p *intake.Policies, c client.Client) func(context.Context) (time.Duration, error) {
	writer := &status.Writer{Client: c}
	return func(ctx context.Context) (time.Duration, error) {
		omissions := s.Omissions()
		objects, _ := p.All()
		var errs []error
		for id, o := range objects {
			if _, err := writer.WriteScan(ctx, o, scanStatus(omissions[id])); err != nil {
				errs = append(errs, err)
			}
		}
		return writeOmissionsEvery, errors.Join(errs...)
	}
}

// writeOmissionsEvery is how often statuses are checked without changes, since another client may have overwritten them.
const writeOmissionsEvery = time.Minute

// scanStatus returns the status field for omissions; nil for none.
func scanStatus(omissions []scan.Omission) *kyvernov1.BackgroundScanStatus {
	if len(omissions) == 0 {
		return nil
	}
	out := &kyvernov1.BackgroundScanStatus{}
	for _, o := range omissions {
		out.NotScanned = append(out.NotScanned, kyvernov1.NotScanned{Rule: o.Rule, Kind: o.Kind, Reason: o.Reason})
	}
	return out
}

// Unlistable returns a function that reports a kind that is not scanned to the authors of policies.
func Unlistable(events event.Recorder) func([]*policy.Program, schema.GroupVersionKind, error) {
	return func(programs []*policy.Program, kind schema.GroupVersionKind, err error) {
		for _, p := range programs {
			events.Record(event.Event{
				Regarding: event.PolicyReference(p), Type: event.Warning, Reason: event.PolicyError, Action: event.None,
				Controller: event.ScanController,
				Note:       fmt.Sprintf("%s %s cannot be scanned, and is missing in reports: %v", kind.GroupVersion(), kind.Kind, err),
			})
		}
	}
}

// EventsOnly replaces the writer of reports: results become events and metrics only.
type EventsOnly struct{}

// Put implements scan.Sink.
func (EventsOnly) Put(context.Context, policy.Outcome, report.Evaluated) (bool, error) {
	return true, nil
}

// Prune implements scan.Sink.
func (EventsOnly) Prune(context.Context, func(schema.GroupKind) bool, scan.Rules, func(schema.GroupKind, string) bool) error {
	return nil
}

// Namespaces follows the labels of namespaces and the annotation that requests a scan.
func Namespaces(s *scan.Scanner) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(old, obj any) {
		before, ok := old.(*metav1.PartialObjectMetadata)
		after, also := obj.(*metav1.PartialObjectMetadata)
		switch {
		case !ok || !also:
		case before.Annotations[scan.RescanAnnotation] != after.Annotations[scan.RescanAnnotation]:
			s.Rescan(after.Name)
		case !maps.Equal(before.Labels, after.Labels):
			s.NamespaceChanged(after.Name)
		}
	}}
}
