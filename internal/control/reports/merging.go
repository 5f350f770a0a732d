package reports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/scan"
	"ephor.invalid/ephor/internal/telemetry"
)

// Merging says which results the reports controller accepts from other controllers, and tells them.
type Merging struct {
	Catalog *catalog.Catalog
	// Scanned returns the kinds that scans evaluate.
	Scanned func() []schema.GroupKind
	// On: results of other controllers are merged.
	On        bool
	Manager   manager.Manager
	Telemetry *telemetry.Telemetry

	mu    sync.Mutex
	of    *catalog.Snapshot
	rules scan.Rules // of that snapshot

	said   *string // the announcement; used by one goroutine
	saidAt time.Time
}

// NewConsumer returns the consumer that merges results of other controllers into reports.
func (m *Merging) NewConsumer(w *reports.Writer, listed metadata.Interface, share controller.Share, workers int) (*reports.Consumer, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(reportsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	follower, err := discovery.NewClient(m.Manager.GetConfig(), client.Options{Scheme: scheme, Mapper: m.Manager.GetRESTMapper(), HTTPClient: controller.PagedClient(m.Manager.GetHTTPClient())})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for EphemeralReports: %w", err)
	}
	t := m.Telemetry
	return reports.NewConsumer(reports.ConsumerOptions{
		Writer: w, Client: follower, Metadata: listed, Wanted: m.Wanted, Share: share, Workers: workers,
		Keys: keystore.NewCached(follower, follower, t.Process.Namespace, keystore.Reports), Doubts: doubtsOf(t),
		Log: t.Log, Now: time.Now,
	}), nil
}

// Wanted returns, for a kind, the rules whose results are accepted from other controllers: rules that exist and are reported, except
// those that scans of the kind evaluate. Scans read existing objects, so other clients cannot forge their results.
func (m *Merging) Wanted(kind schema.GroupKind) func(report.Rule) bool {
	snapshot := m.Catalog.Snapshot()
	m.mu.Lock()
	if m.of != snapshot {
		m.of, m.rules = snapshot, scan.RulesOf(snapshot)
	}
	rules := m.rules
	m.mu.Unlock()
	if slices.Contains(m.Scanned(), kind) {
		return func(r report.Rule) bool { return rules.Elsewhere(kind, r) }
	}
	return rules.Live
}

// Prune returns the Reconcile that removes the results of deleted rules from reports that no scan updates.
func (m *Merging) Prune(w *reports.Writer) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		select {
		case <-w.Ready():
		default:
			return announceEvery, nil
		}
		none := func(schema.GroupKind) bool { return false }
		return 0, w.Prune(ctx, none, scan.Unscanned(m.Catalog.Snapshot()), nil)
	}
}

const (
	// announceEvery is the pause between two checks for changes of the scanned kinds. announceAgain is the longest pause between
	// two announcements.
	announceEvery = 5 * time.Second
	announceAgain = time.Minute
)

// Announce writes the scanned kinds to the Lease of the reports controller, for the controllers that send results.
func (m *Merging) Announce(ctx context.Context) (time.Duration, error) {
	var text *string // none if no controller merges results
	if m.On {
		scanned := ephemeral.NewScans(m.Scanned()).String()
		text = &scanned
	}
	if time.Since(m.saidAt) < announceAgain && (m.said == text || m.said != nil && text != nil && *m.said == *text) {
		return announceEvery, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{ephemeral.ScannedAnnotation: text}}})
	if err != nil {
		return 0, err
	}
	leases, err := coordinationclient.NewForConfigAndClient(m.Manager.GetConfig(), m.Manager.GetHTTPClient())
	if err != nil {
		return 0, err
	}
	if _, err = leases.Leases(m.Telemetry.Process.Namespace).Patch(ctx, Lease, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return 0, fmt.Errorf("write the scanned kinds to the Lease %s: %w", Lease, err)
	}
	m.said, m.saidAt = text, time.Now()
	return announceEvery, nil
}
