package app

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
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/internal/app/results"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/scan"
)

// scans reports whether this controller evaluates existing objects.
func (f *reportsFlags) scans() bool { return f.scan && f.reporting.Reported("validate") }

// takes reports whether this controller merges the results of other controllers.
func (f *reportsFlags) takes() bool {
	return f.write && f.aggregate && (f.admissionReports || f.scan)
}

// newConsumer returns the consumer that merges results of other controllers into reports.
func (c *reporting) newConsumer(listed metadata.Interface) (*reports.Consumer, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(reportsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	follower, err := client.NewWithWatch(c.base.cfg, client.Options{Scheme: scheme, HTTPClient: c.manager.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for EphemeralReports: %w", err)
	}
	return reports.NewConsumer(reports.ConsumerOptions{
		Writer: c.writer, Client: follower, Metadata: listed, Wanted: c.wanted, Share: c.ring, Workers: c.flags.takers,
		Keys: results.ReportKeys(follower, c.env.namespace), Doubts: results.Doubts(c.base.observing.Metrics, c.base.log),
		Observer: c.base.observing.Metrics, Log: c.log, Now: time.Now,
	}), nil
}

// knownRules are the rules of a snapshot of the policies.
type knownRules struct {
	mu    sync.Mutex
	of    *catalog.Snapshot
	rules scan.Rules
}

// wanted returns, for a kind, the rules whose results are accepted from other controllers: rules that exist and are reported, except
// those that scans of the kind evaluate. Scans read existing objects, so other clients cannot forge their results.
func (c *reporting) wanted(kind schema.GroupKind) func(report.Rule) bool {
	snapshot := c.catalog.Snapshot()
	c.rules.mu.Lock()
	if c.rules.of != snapshot {
		c.rules.of, c.rules.rules = snapshot, scan.RulesOf(snapshot)
	}
	rules := c.rules.rules
	c.rules.mu.Unlock()
	if c.flags.scans() && slices.Contains(c.scanner.Scanned(), kind) {
		return rules.Elsewhere
	}
	return rules.Live
}

// prune removes the results of deleted rules from reports that no scan updates.
func (c *reporting) prune(ctx context.Context) (time.Duration, error) {
	select {
	case <-c.writer.Ready():
	default:
		return announceEvery, nil
	}
	none := func(schema.GroupKind) bool { return false }
	return 0, c.writer.Prune(ctx, none, scan.Unscanned(c.catalog.Snapshot()), nil)
}

const (
	// announceEvery is the pause between two checks for changes of the scanned kinds. announceAgain is the longest pause between
	// two announcements.
	announceEvery = 5 * time.Second
	announceAgain = time.Minute
)

// announcing returns a function that writes the scanned kinds to the Lease of the reports controller, for the controllers that send results.
func (c *reporting) announcing() func(context.Context) (time.Duration, error) {
	var said *string
	var at time.Time
	return func(ctx context.Context) (time.Duration, error) {
		text := c.announcement()
		if time.Since(at) < announceAgain && (said == text || said != nil && text != nil && *said == *text) {
			return announceEvery, nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{ephemeral.ScannedAnnotation: text}}})
		if err != nil {
			return 0, err
		}
		_, err = c.leases.Leases(c.env.namespace).Patch(ctx, results.ReportsLease, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return 0, fmt.Errorf("write the scanned kinds to the Lease %s: %w", results.ReportsLease, err)
		}
		said, at = text, time.Now()
		return announceEvery, nil
	}
}

// announcement returns the text to announce, or nil if no controller merges results.
func (c *reporting) announcement() *string {
	if !c.flags.write {
		return nil
	}
	var kinds []schema.GroupKind
	if c.flags.scans() {
		kinds = c.scanner.Scanned()
	}
	text := ephemeral.NewScans(kinds).String()
	return &text
}
