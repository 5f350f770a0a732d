package ephemeral

import (
	"log/slog"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// doubtEvery is the minimum time between two log lines about rejected reports.
const doubtEvery = time.Minute

// Doubts records rejected reports: it counts each, and names one of them in the log, at most once a minute. It is safe for
// concurrent use.
type Doubts struct {
	// Count is called for each rejected report with the reason, such as "forged"; nil for none.
	Count func(reason string)
	Log   *slog.Logger
	Now   func() time.Time

	mu      sync.Mutex
	next    time.Time
	unnamed int // since the last log line
}

// Report records that a report was rejected, with the reason.
func (d *Doubts) Report(o client.Object, why error) {
	if d.Count != nil {
		d.Count(why.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	if now.Before(d.next) {
		d.unnamed++
		return
	}
	d.Log.Warn("an intermediate report is rejected and its results are dropped: it was not written by a controller of Ephor, or was changed since",
		"namespace", o.GetNamespace(), "name", o.GetName(), "reason", why, "others", d.unnamed)
	d.next, d.unnamed = now.Add(doubtEvery), 0
}
