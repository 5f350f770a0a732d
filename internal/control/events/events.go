package events

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/telemetry"
)

// Flags configure which events are written, and how fast.
type Flags struct {
	omit     []string
	capacity int
	qps      float32
	burst    int
}

// Register adds the flags.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.omit, "omitEvents", nil, "reasons of events to omit: PolicyViolation, PolicyApplied, PolicyError, PolicySkipped")
	fs.IntVar(&f.capacity, "maxQueuedEvents", 1000, "maximum number of events that wait to be written; 0 to write no events")
	fs.Float32Var(&f.qps, "eventsRateLimitQPS", 1000, "maximum number of events written per second; 0 or less for no limit")
	fs.IntVar(&f.burst, "eventsRateLimitBurst", 2000, "maximum burst of events")
}

// New returns the queue of events. The queue writes through its own client, so that other requests never wait for
// events.
func New(cfg *rest.Config, f Flags, s *settings.Store, t *telemetry.Telemetry) (*event.Queue, error) {
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst = f.qps, f.burst
	if f.qps <= 0 {
		own.QPS = -1
	}
	client, err := eventsclient.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for events: %w", err)
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	t.Metrics.Controller(event.QueueName)
	return event.New(event.Options{
		Writer: eventWriter{client}, Instance: host, Capacity: f.capacity, Omit: f.omit,
		Settings: s.Load, Observer: t.Metrics, Log: t.Log, Now: time.Now,
	}), nil
}

// OfRequests returns a function that records the events of an evaluated request.
func OfRequests(q *event.Queue) func(*policy.Request, []policy.Result, bool) {
	return func(req *policy.Request, results []policy.Result, blocked bool) {
		Record(q, req, results, event.Context{Controller: event.AdmissionController, Blocked: blocked})
	}
}

// Record records the events of results.
func Record(q *event.Queue, req *policy.Request, results []policy.Result, in event.Context) {
	if !worthRecording(q, results) {
		return
	}
	for _, e := range event.From(req, results, in) {
		q.Record(e)
	}
}

// worthRecording reports whether any result could become an event. Nearly all requests only pass, and building their events would be
// wasted.
func worthRecording(q *event.Queue, results []policy.Result) bool {
	for i := range results {
		switch r := &results[i]; r.Status {
		case policy.StatusFail, policy.StatusError:
			return true
		case policy.StatusSkip:
			if len(r.Exceptions) > 0 {
				return true
			}
		}
	}
	return len(results) > 0 &&
		(q.Wants(event.PolicyApplied, event.ResourcePassed) || q.Wants(event.PolicyApplied, event.ResourceMutated))
}

// eventWriter writes events to the API server.
type eventWriter struct{ client eventsclient.EventsGetter }

// writeTimeout limits the time for writing one event.
const writeTimeout = 5 * time.Second

func (w eventWriter) Create(ctx context.Context, e *eventsv1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := w.client.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
	return err
}

func (w eventWriter) Repeat(ctx context.Context, namespace, name string, series eventsv1.EventSeries) error {
	patch, err := json.Marshal(map[string]any{"series": series})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = w.client.Events(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
