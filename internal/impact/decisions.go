package impact

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// Decided is one record of a decision, or the reason why it cannot be read.
type Decided struct {
	At     string
	Record *decision.Record
	Err    error
}

// DecisionFile reads the records of a file of JSON lines. A line that cannot be read has an error.
func DecisionFile(name string, r io.Reader) iter.Seq[Decided] {
	return func(yield func(Decided) bool) {
		line, ended := 0, false
		give := func(d Decided) bool {
			ended = ended || !yield(d)
			return !ended
		}
		err := decision.Read(r, func(r *decision.Record) bool {
			line++
			return give(Decided{At: fmt.Sprintf("%s, record %d", name, line), Record: r})
		}, func(line int, err error) {
			if !ended {
				give(Decided{At: fmt.Sprintf("%s:%d", name, line), Err: err})
			}
		})
		if err != nil && !ended {
			yield(Decided{At: name, Err: err})
		}
	}
}

// storePage is the number of records that are read at once from a store.
const storePage = 500

// StoredDecisions reads the records of a store that a query selects, with their requests, the oldest first. It begins a little before the query's
// time, so that all reviews of a request are seen.
func StoredDecisions(ctx context.Context, name string, pages decision.Pages, q decision.Query) iter.Seq[Decided] {
	q.Requests, q.Oldest = true, true
	if !q.Since.IsZero() {
		q.Since = q.Since.Add(-together)
	}
	return func(yield func(Decided) bool) {
		if _, err := pages.Each(ctx, &q, storePage, func(r *decision.Record) bool { return yield(Decided{At: name + ", UID " + r.UID, Record: r}) }); err != nil {
			yield(Decided{At: name, Err: err})
		}
	}
}

// Reasons why a recorded decision is not evaluated as a separate request. Such records are counted; they are not mistakes.
var (
	// ErrSameRequest: an earlier record holds the review of the same request by another webhook.
	ErrSameRequest = errors.New("another webhook was asked about the same request")
	// ErrAlike is an uncertain ErrSameRequest: the review may belong to a separate request that is similar to the earlier one.
	ErrAlike = fmt.Errorf("%w, or about a request that is like it", ErrSameRequest)
	// ErrCut: a policy reads a value that was cut before the request was recorded.
	ErrCut = errors.New("a policy reads a value that is not recorded")
)

// Decisions returns the requests of recorded decisions since a time, in the order of their times. It reads the sources in parallel, such as
// the files of several replicas. The reviews of one request by several webhooks become one request. Its object is that of the first review,
// before later webhooks changed it.
func Decisions(since time.Time, sources ...iter.Seq[Decided]) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		var requests requests
		var held lookingUp
		for d := range inOrder(merged(sources)) {
			r := &Record{At: d.At, Err: d.Err}
			if d.Err == nil {
				of, known, certain := requests.known(d.Record) // before the check of the time: a later review may be of the same request
				switch {
				case known && certain:
					r.Err = ErrSameRequest
				case known:
					r.Err = ErrAlike
				}
				r.Decision, r.Time = d.Record, d.Record.Time
				if of != nil {
					of.add(r)
				}
				if r.Time.Before(since) {
					continue
				}
			}
			if !held.add(r, yield) {
				return
			}
		}
		held.end(yield)
	}
}

// lookingUp holds records until the lookups of all reviews of their requests are known. Each webhook evaluates different policies, so each
// review has different lookups.
type lookingUp struct {
	records []*Record
	newest  time.Time
}

// add adds a record, and yields the records that need not wait any longer, in order.
func (h *lookingUp) add(r *Record, yield func(Record) bool) bool {
	h.records = append(h.records, r)
	if r.Time.After(h.newest) {
		h.newest = r.Time
	}
	n := 0
	for ; n < len(h.records); n++ {
		first := h.records[n]
		if len(first.Lookups) > 0 && h.newest.Sub(first.Time) <= together && len(h.records)-n <= unorderedMost {
			break
		}
		if !yield(*first) {
			return false
		}
	}
	h.records = slices.Delete(h.records, 0, n)
	return true
}

// end yields the remaining records.
func (h *lookingUp) end(yield func(Record) bool) {
	for _, r := range h.records {
		if !yield(*r) {
			return
		}
	}
}

// merged yields the records of several sources, earliest first.
func merged(sources []iter.Seq[Decided]) iter.Seq[Decided] {
	if len(sources) == 1 {
		return sources[0]
	}
	return func(yield func(Decided) bool) {
		type head struct {
			Decided
			next func() (Decided, bool)
		}
		var heads []head
		for _, s := range sources {
			next, stop := iter.Pull(s)
			defer stop()
			if d, ok := next(); ok {
				heads = append(heads, head{d, next})
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if heads[i].before(&heads[first].Decided) {
					first = i
				}
			}
			if !yield(heads[first].Decided) {
				return
			}
			d, ok := heads[first].next()
			if !ok {
				heads = slices.Delete(heads, first, first+1)
				continue
			}
			heads[first].Decided = d
		}
	}
}

func (d *Decided) before(o *Decided) bool {
	switch {
	case d.Err != nil || o.Err != nil:
		return d.Err != nil && o.Err == nil
	}
	return d.Record.Time.Before(o.Record.Time)
}

// Limits of the records that wait here to be sorted. Records are written after the auditing rules, so they are slightly out of order.
const (
	unordered     = 10 * time.Second
	unorderedMost = 4096
)

// waiting is a heap of records by time.
type waiting []Decided

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].before(&w[j]) }
func (w waiting) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(x any)        { *w = append(*w, x.(Decided)) }
func (w *waiting) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	(*w)[last] = Decided{}
	*w = (*w)[:last]
	return x
}

// inOrder yields records in the order of their times, if they are out of order by no more than the limits.
func inOrder(in iter.Seq[Decided]) iter.Seq[Decided] {
	return func(yield func(Decided) bool) {
		var held waiting
		var newest time.Time
		for d := range in {
			if d.Err != nil {
				if !yield(d) {
					return
				}
				continue
			}
			heap.Push(&held, d)
			if d.Record.Time.After(newest) {
				newest = d.Record.Time
			}
			for len(held) > unorderedMost || len(held) > 0 && newest.Sub(held[0].Record.Time) > unordered {
				if !yield(heap.Pop(&held).(Decided)) {
					return
				}
			}
		}
		for len(held) > 0 {
			if !yield(heap.Pop(&held).(Decided)) {
				return
			}
		}
	}
}

// together is the time within which all reviews of one request arrive. A webhook takes at most 30 seconds; mutating webhooks are called one
// after the other, validating ones at once.
const together = 40 * time.Second

// apart is the longest time between an answer and the call of the next webhook, unless another webhook is slow.
const apart = time.Second

// requests finds the reviews of one request by several webhooks. The API server gives each of them a separate UID, so they are recognized
// by their other fields.
type requests struct {
	open  map[subjectKey][]*group
	order []opened
}

type opened struct {
	key   subjectKey
	group *group
}

// subjectKey has the fields that are equal in all reviews of one request.
type subjectKey struct {
	user, operation, group, version, resource, subresource, namespace, name, old string
	dryRun                                                                       bool
}

// group has the reviews of one request so far.
type group struct {
	began time.Time
	ended time.Time // when the last review was answered
	name  string    // the name that the API server generated for the object after the mutating webhooks
	// mutating and validating have the policies that answered. For each kind of webhooks, a request reaches a policy once.
	mutating, validating []string
	validated            bool
	first                *Record
	refused              bool   // by a mutating webhook: no other webhook is called
	object, mutated      string // digests of the object in the validating reviews, and in the last mutating one
}

// add adds the lookups of a review to the first record of the group.
func (g *group) add(r *Record) {
	if g.first == nil {
		g.first = r
	}
	if l := r.Decision.Request.Lookups; l != nil {
		g.first.Lookups = append(g.first.Lookups, l)
	}
}

// known adds a review to the group of its request. It reports whether an earlier review is of the same request, and whether that is certain.
func (q *requests) known(r *decision.Record) (of *group, known, certain bool) {
	if r.Request == nil {
		return nil, false, false
	}
	for len(q.order) > 0 && r.Time.Sub(q.order[0].group.began) > together {
		o := q.order[0]
		q.order = q.order[1:]
		if list := slices.DeleteFunc(q.open[o.key], func(g *group) bool { return g == o.group }); len(list) > 0 {
			q.open[o.key] = list
		} else {
			delete(q.open, o.key)
		}
	}
	key := subjectKey{
		r.User, r.Operation, r.Request.Group, r.Request.Version, r.Request.Resource, r.Subresource, r.Namespace, r.Name, digestOf(r.Request.OldObject), r.DryRun,
	}
	policies := policiesOf(r)
	for _, g := range slices.Backward(q.open[key]) {
		if joined, certain := g.join(r, policies); joined {
			return g, true, certain
		}
	}
	if n := len(r.Name); r.Operation == "CREATE" && n > suffix && !strings.HasSuffix(r.Name, "*") {
		generated := key
		generated.name = r.Name[:n-suffix] + "*"
		for _, g := range slices.Backward(q.open[generated]) {
			if g.name != "" && g.name != r.Name {
				continue
			}
			if joined, certain := g.join(r, policies); joined {
				g.name = r.Name
				return g, true, certain
			}
		}
	}
	g := &group{began: r.Time}
	g.join(r, policies)
	if q.open == nil {
		q.open = map[subjectKey][]*group{}
	}
	q.open[key] = append(q.open[key], g)
	q.order = append(q.order, opened{key, g})
	return g, false, false
}

// suffix is the number of characters that the API server appends to a generateName.
const suffix = 5

// join adds a review to the group, unless it cannot be of the same request. The membership is certain for a validating review with the same
// object as another one. It is uncertain if time has passed, or if the same mutating policies review another object, as happens when a later
// webhook changes the object: the review may then be of a similar request, if the validating review of the first one has no record.
func (g *group) join(r *decision.Record, policies []string) (joined, certain bool) {
	if g.refused {
		return false, false
	}
	object := digestOf(r.Request.Object)
	late := r.Time.Sub(g.ended) > apart
	if ended := r.Time.Add(r.Duration); ended.After(g.ended) {
		defer func() {
			if joined {
				g.ended = ended
			}
		}()
	}
	if r.Webhook == mutatingWebhook {
		switch {
		case g.validated:
			return false, false
		case meet(g.mutating, policies) && object == g.mutated: // the API server repeats a webhook only for a changed object
			return false, false
		}
		certain = !late && !meet(g.mutating, policies)
		g.mutating, g.mutated, g.refused = append(g.mutating, policies...), object, !r.Allowed
		return true, certain
	}
	if g.validated && (object != g.object || meet(g.validating, policies)) {
		return false, false
	}
	certain = g.validated || !late
	g.validating, g.validated, g.object = append(g.validating, policies...), true, object
	return true, certain
}

const mutatingWebhook = "MutatingWebhookConfiguration"

func digestOf(b *decision.Body) string {
	if b == nil {
		return ""
	}
	return b.Digest
}

func policiesOf(r *decision.Record) (out []string) {
	for i := range r.Rules {
		if name := r.Rules[i].Policy; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}

// unsampled returns the number of reviews that a record represents in addition to its own.
func unsampled(r *decision.Record) float64 {
	if r.Share <= 0 || r.Share >= 1 {
		return 0
	}
	return math.Round(1/r.Share) - 1
}
