package ephemeral

import (
	"context"
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/report"
)

// Report holds the results that are sent about one resource.
type Report struct {
	// Resource has no name if the API server has yet to generate it, and no UID if it has yet to assign one.
	Resource report.Resource
	GVR      schema.GroupVersionResource
	// Policies are the policies of the results: label and version.
	Policies map[string]string
	Results  []policyreport.Result
}

// Store writes Reports to the place where the reports controller finds them.
type Store interface {
	// Write stores the report, together with earlier results about the resource. full: it stored nothing because there
	// are too many objects.
	Write(ctx context.Context, r *Report) (full bool, err error)
}

// flush writes the results that are ready, the oldest first.
func (w *Writer) flush(ctx context.Context, ready func(*pending, time.Time) bool) {
	now := w.Now()
	var todo []*pending
	w.mu.Lock()
	for _, p := range w.waiting {
		if ready(p, now) {
			todo = append(todo, p)
		}
	}
	w.mu.Unlock()
	slices.SortFunc(todo, func(a, b *pending) int { return a.due.Compare(b.due) })
	for _, p := range todo {
		if ctx.Err() != nil {
			return // the last flush writes the rest, or the rest is lost with the process
		}
		w.write(ctx, p, now)
	}
}

// write sends the waiting results about a resource, unless the same results were sent a short time ago.
func (w *Writer) write(ctx context.Context, p *pending, now time.Time) {
	w.mu.Lock()
	r := p.report()
	said := saying(r.Results)
	of := key(&r.Resource)
	if at, same := w.sent.same(of, said); same && now.Sub(at) < repeatAfter && !w.closed {
		p.due = at.Add(repeatAfter)
		w.mu.Unlock()
		return
	}
	delete(w.waiting, of)
	w.bytes -= p.bytes
	w.sent.remember(of, said, now)
	w.mu.Unlock()

	full, err := w.Store.Write(ctx, r)
	w.Observer.Asked(full)
	if err == nil && !full {
		return
	}
	w.mu.Lock()
	w.sent.drop(of)
	waits := err != nil && w.waitAgain(p, of, err)
	w.mu.Unlock()
	if err != nil && !waits {
		w.Observer.Unsent(NotWritten)
		w.Log.Warn("results were not sent to the reports controller", "kind", r.Resource.Kind, "namespace", r.Resource.Namespace, "name", r.Resource.Name, "error", err)
	}
}

// waitAgain lets results wait for another write after one that failed, and reports whether they do. Later results of the same rules replace
// them. The caller holds the lock.
func (w *Writer) waitAgain(p *pending, of string, err error) bool {
	if w.closed || p.failures >= maxRetries || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return false
	}
	p.failures++
	p.due = w.Now().Add(firstRetry << (p.failures - 1))
	if later := w.waiting[of]; later != nil {
		w.bytes -= later.bytes
		for _, part := range later.parts {
			p.add(part.seconds, part.entries)
		}
		p.resource, p.due = later.resource, later.due
	} else if len(w.waiting) >= maxWaiting || w.bytes >= maxBytes {
		return false
	}
	w.waiting[of] = p
	w.bytes += p.bytes
	return true
}

// report returns the waiting results in the form in which they are sent.
func (p *pending) report() *Report {
	r := &Report{Resource: p.resource, GVR: p.gvr, Policies: map[string]string{}}
	for _, part := range p.parts {
		r.Results = append(r.Results, report.Results(part.entries, part.seconds)...)
		for i := range part.entries {
			label(r.Policies, &part.entries[i])
		}
	}
	report.Sort(r.Results)
	return r
}

// seed is the seed for the digests in this process.
var seed = maphash.MakeSeed()

// saying returns a digest of results, without the times at which they were found.
func saying(results []policyreport.Result) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	text := func(all ...string) {
		for _, t := range all { // the length separates adjacent texts
			_, _ = h.WriteString(strconv.Itoa(len(t)) + ":" + t)
		}
	}
	for i := range results {
		x := &results[i]
		text(x.Policy, x.Rule, string(x.Result), x.Message)
		text(properties(x.Properties)...)
	}
	return h.Sum64()
}

func properties(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, strconv.Itoa(len(k))+":"+k+v)
	}
	slices.Sort(out)
	return out
}

// memory records what was last sent about each resource, for the latest resources.
type memory struct{ recent, older map[string]saidAt }

type saidAt struct {
	said uint64
	at   time.Time
}

// same reports whether the same results were sent last, and when.
func (m *memory) same(of string, said uint64) (at time.Time, same bool) {
	last, known := m.recent[of]
	if !known {
		last = m.older[of]
	}
	return last.at, !last.at.IsZero() && last.said == said
}

func (m *memory) remember(of string, said uint64, at time.Time) {
	if m.recent == nil || len(m.recent) >= remembered {
		m.older, m.recent = m.recent, map[string]saidAt{}
	}
	m.recent[of] = saidAt{said, at}
}

func (m *memory) drop(of string) {
	delete(m.recent, of)
	delete(m.older, of)
}
