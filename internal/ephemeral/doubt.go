package ephemeral

import (
	"log/slog"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// doubtEvery is how often a line of the log names a report that is not believed.
const doubtEvery = time.Minute

// Doubts reports reports that are not believed: it counts each, and names one of them in the log once a minute at most. It is
// safe for all goroutines.
type Doubts struct {
	// Count is called for each with the reason, such as "forged"; nil for none.
	Count func(reason string)
	Log   *slog.Logger
	Now   func() time.Time

	mu      sync.Mutex
	next    time.Time
	unnamed int // since the last line
}

// Report reports a report that is not believed because of why.
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
	d.Log.Warn("an intermediate report is not believed and its results are dropped: no controller of Ephor's wrote it as it is",
		"namespace", o.GetNamespace(), "name", o.GetName(), "reason", why, "others", d.unnamed)
	d.next, d.unnamed = now.Add(doubtEvery), 0
}
