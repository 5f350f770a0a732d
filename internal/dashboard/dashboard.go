package dashboard

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/world"
)

// Options of a Dashboard. All are required, except where the comment allows a zero value.
type Options struct {
	// Client reads reports. Its rate limit should be separate from that of the controller's own work.
	Client rest.Interface
	// Form is the form of the reports to show.
	Form reports.Form
	// Tokens and Access identify the user of a bearer token, and the reports that the user may list. Without Tokens no token is needed,
	// every client sees everything, and only requests for loopback host names are answered.
	Tokens Tokens
	Access world.Access

	// Decisions reads the decisions of admission; nil for none. If Cluster is set, only the decisions of that cluster are shown.
	Decisions decision.Reader
	Cluster   string

	// Discovery returns the kinds of the cluster; nil to evaluate no policies. As returns a client with the rights of the owner of a token;
	// if Tokens is set, Discovery requires it.
	Discovery policyreview.Discovery
	As        func(token string) (rest.Interface, error)
	// Settings returns the settings of the installation, Types the types of known kinds; nil for the defaults, and none.
	Settings func() *settings.Settings
	Types    func() managedfields.TypeConverter
	// Server returns the version of the API server; nil for the newest.
	Server func() kubeversion.Minor
	// Families describes the kinds of policies; nil for Ephor's own.
	Families *compile.Registry

	// AcceptsExceptions reports whether exceptions in a namespace take effect; nil if all do.
	AcceptsExceptions func(namespace string) bool
	// Pending returns the exceptions that wait for an approval; nil if the installation requires none.
	Pending func() []*policy.Exception

	// Sample is the initial interval of samples for the trend; zero for ten seconds.
	Sample time.Duration

	Log *slog.Logger
	Now func() time.Time
}

// Dashboard shows the results in the reports of a cluster. It is safe for concurrent use.
type Dashboard struct {
	o                   Options
	index               *index
	trend               *trend
	sessions            *sessions
	namespaced, cluster *reader
	started             time.Time
	complete            atomic.Bool   // all reports have been read
	answers, details    chan struct{} // places for requests in progress

	impactMu sync.Mutex
	impacts  map[string]bool // users whose policies are being evaluated
}

// New returns a Dashboard without reports; Follow reads them.
func New(o Options) *Dashboard {
	d := &Dashboard{
		o: o, index: newIndex(), trend: newTrend(o.Sample), sessions: newSessions(o), started: o.Now(),
		answers: make(chan struct{}, maxAnswers), details: make(chan struct{}, detailsAtOnce),
		impacts: map[string]bool{},
	}
	d.namespaced = &reader{client: o.Client, kind: o.Form.Namespaced, index: d.index, log: o.Log}
	d.cluster = &reader{client: o.Client, kind: o.Form.Cluster, index: d.index, log: o.Log, cluster: true}
	return d
}

// Follow keeps the dashboard current until ctx is done.
func (d *Dashboard) Follow(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	read := make(chan struct{}, 2)
	for _, r := range []*reader{d.namespaced, d.cluster} {
		running.Go(func() { r.follow(ctx, sync.OnceFunc(func() { read <- struct{}{} })) })
	}
	for range cap(read) {
		select {
		case <-read:
		case <-ctx.Done():
			return
		}
	}
	d.complete.Store(true)
	n, _ := d.index.state()
	d.o.Log.Info("the dashboard has read the reports", "reports", n)
	d.trend.run(ctx, d.o.Now, d.index.totals)
}

func (d *Dashboard) readerOf(k reportKey) *reader {
	if k.namespace == "" {
		return d.cluster
	}
	return d.namespaced
}

// evaluates reports whether policies can be evaluated: on recorded requests, or on the objects that a user may read.
func (d *Dashboard) evaluates() bool {
	if d.o.Tokens == nil {
		return d.o.Discovery != nil && d.o.Decisions != nil
	}
	return d.o.Discovery != nil && d.o.As != nil
}
