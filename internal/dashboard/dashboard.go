package dashboard

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ephor-dev/ephor/internal/decision"
	"github.com/ephor-dev/ephor/internal/reports"
	"github.com/ephor-dev/ephor/internal/world"
)

// Options of a Dashboard. All are required, except where the comment allows a zero value.
type Options struct {
	// Client reads reports. Its rate limit should not be that of the controller's own work.
	Client rest.Interface
	// Form is the form of the shown reports.
	Form reports.Form
	// Tokens and Access identify the user of a bearer token, and the reports that the user may list. Without Tokens no token is needed,
	// every client sees everything, and only requests for loopback host names are answered.
	Tokens Tokens
	Access world.Access

	// Decisions reads what admission decided; nil for none. Only those of Cluster are shown, if set.
	Decisions decision.Reader
	Cluster   string

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
	answers, details    chan struct{} // places
}

// New returns a Dashboard without reports; Follow reads them.
func New(o Options) *Dashboard {
	d := &Dashboard{
		o: o, index: newIndex(), trend: newTrend(o.Sample), sessions: newSessions(o), started: o.Now(),
		answers: make(chan struct{}, maxAnswers), details: make(chan struct{}, detailsAtOnce),
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
