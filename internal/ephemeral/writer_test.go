package ephemeral

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// desk is a Writer with what it wrote, whose time only the test changes.
type desk struct {
	*Writer
	at      time.Time
	written []*Report
	unsent  []string
	full    bool
	err     error
}

func (d *desk) Write(_ context.Context, r *Report) (bool, error) {
	if !d.full && d.err == nil {
		d.written = append(d.written, r)
	}
	return d.full, d.err
}

func (d *desk) Asked(bool)        {}
func (d *desk) Unsent(why string) { d.unsent = append(d.unsent, why) }

// pass lets time pass, and makes the Writer write what is due by then.
func (d *desk) pass(t time.Duration) {
	d.at = d.at.Add(t)
	d.flush(context.Background(), func(p *pending, now time.Time) bool { return !p.due.After(now) })
}

func (d *desk) said() string {
	var out []string
	for _, r := range d.written {
		for _, x := range r.Results {
			out = append(out, fmt.Sprintf("%s:%s/%s=%s@%d", r.Resource.UID, x.Policy, x.Rule, x.Result, x.Timestamp.Seconds))
		}
	}
	d.written = nil
	return strings.Join(out, " ")
}

func newDesk(change func(*Options)) *desk {
	d := &desk{at: time.Unix(100, 0)}
	o := Options{Store: d, Observer: d, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: func() time.Time { return d.at }}
	change(&o)
	d.Writer = New(o)
	return d
}

// found returns a result of a rule with its own name.
func found(rule string, s policy.Status) policy.Result {
	p, r := sent(func(*policy.Program, *policy.Rule) {})
	r.Name = rule
	return policy.Result{Program: p, Rule: r, Yield: policy.Yield{Status: s, Message: "m"}}
}

func TestWriterGathers(t *testing.T) {
	d := newDesk(func(*Options) {})
	d.Put(podRequest("a", policy.Create), []policy.Result{found("one", policy.StatusPass), found("two", policy.StatusFail)})
	d.pass(time.Second)
	if got := d.said(); got != "" {
		t.Errorf("written at once: %s", got)
	}
	d.Put(podRequest("a", policy.Update), []policy.Result{found("two", policy.StatusPass)})
	d.Put(podRequest("b", policy.Create), []policy.Result{found("one", policy.StatusSkip)})
	d.pass(time.Second)
	if got := d.said(); got != "a:p/one=pass@100 a:p/two=pass@101" {
		t.Errorf("of a: %s", got)
	}
	d.pass(time.Second)
	if got := d.said(); got != "b:p/one=skip@101" {
		t.Errorf("of b: %s", got)
	}
	if d.Waiting() != 0 || d.bytes != 0 {
		t.Errorf("%d wait, %d bytes", d.Waiting(), d.bytes)
	}
}

// Results from before the object had its UID are sent together with later ones.
func TestWriterBeforeTheUID(t *testing.T) {
	d := newDesk(func(*Options) {})
	d.Put(podRequest("", policy.Create), []policy.Result{found("mutate", policy.StatusPass)})
	d.Put(podRequest("a", policy.Create), []policy.Result{found("validate", policy.StatusFail)})
	d.pass(gather)
	if got := d.said(); got != "a:p/mutate=pass@100 a:p/validate=fail@100" || d.Waiting() != 0 || d.bytes != 0 {
		t.Errorf("%s, %d wait", got, d.Waiting())
	}
}

// Results that were already sent wait longer: other replicas may have found other results meanwhile.
func TestWriterRepeats(t *testing.T) {
	d := newDesk(func(*Options) {})
	put := func(s policy.Status) { d.Put(podRequest("a", policy.Update), []policy.Result{found("r", s)}) }
	put(policy.StatusPass)
	d.pass(gather)
	for range 20 { // 100 to 142
		put(policy.StatusPass)
		d.pass(gather)
	}
	if got := d.said(); got != "a:p/r=pass@100" {
		t.Errorf("within a minute: %s", got)
	}
	d.pass(repeatAfter)
	if got := d.said(); got != "a:p/r=pass@140" {
		t.Errorf("after it: %s", got)
	}
	put(policy.StatusPass)
	d.pass(gather)
	put(policy.StatusFail)
	d.pass(repeatAfter)
	if got := d.said(); !strings.HasPrefix(got, "a:p/r=fail@") {
		t.Errorf("what changed: %s", got)
	}
}

func TestWriterRefuses(t *testing.T) {
	gone := &View{}
	for _, c := range []struct {
		name    string
		change  func(*Options)
		request func(*policy.Request)
		full    bool
		err     error
		want    string
		unsent  []string
	}{
		{name: "nothing", want: "a:p/r=pass@100"},
		{name: "rules of other kinds", change: func(o *Options) { o.Rules = []string{"mutate"} }},
		{name: "other results", change: func(o *Options) { o.Allowed = report.Allowed{policy.StatusFail: true} }},
		{name: "no reports controller", change: func(o *Options) { o.View = gone }, unsent: []string{NobodyThere}},
		{name: "a dry run", request: func(r *policy.Request) { r.DryRun = true }},
		{name: "an object without UID", request: func(r *policy.Request) { r.Object = podRequest("", policy.Create).Object }, want: ":p/r=pass@100"},
		{name: "an object without UID and name", request: func(r *policy.Request) { r.Object, r.Name = podRequest("", policy.Create).Object, "" }, unsent: []string{NoName}},
		{name: "too many objects", full: true},
		{name: "an API server that refuses", err: apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New("no")), unsent: []string{NotWritten}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(func(o *Options) {
				if c.change != nil {
					c.change(o)
				}
			})
			d.full, d.err = c.full, c.err
			r := podRequest("a", policy.Create)
			if c.request != nil {
				c.request(r)
			}
			d.Put(r, []policy.Result{found("r", policy.StatusPass)})
			d.pass(gather)
			if got := d.said(); got != c.want || !slices.Equal(d.unsent, c.unsent) || d.Waiting() != 0 {
				t.Errorf("written %q, unsent %v, %d wait; want %q, %v", got, d.unsent, d.Waiting(), c.want, c.unsent)
			}
			d.full, d.err = false, nil // results that were not written do not count as sent
			d.Put(r, []policy.Result{found("r", policy.StatusPass)})
			d.pass(gather)
			if got := d.said(); (c.full || c.err != nil) && got == "" {
				t.Error("not tried again")
			}
		})
	}
}

// Results whose write fails for the moment wait for another one, for two minutes; later results of the same rules replace them.
func TestWriterTriesAgain(t *testing.T) {
	put := func(d *desk, rule string, s policy.Status) {
		d.Put(podRequest("a", policy.Create), []policy.Result{found(rule, s)})
	}
	d := newDesk(func(*Options) {})
	d.err = errors.New("connection refused")
	put(d, "one", policy.StatusPass)
	put(d, "two", policy.StatusPass)
	d.pass(gather)
	d.at = d.at.Add(time.Second)
	put(d, "two", policy.StatusFail)
	d.pass(gather)
	if d.Waiting() != 1 || len(d.unsent) > 0 {
		t.Errorf("%d wait, unsent %v", d.Waiting(), d.unsent)
	}
	d.err = nil
	d.pass(firstRetry << 2)
	if got := d.said(); got != "a:p/one=pass@100 a:p/two=fail@103" || d.Waiting() != 0 || d.bytes != 0 {
		t.Errorf("written %q, %d wait with %d bytes", got, d.Waiting(), d.bytes)
	}

	d.err = errors.New("connection refused")
	put(d, "one", policy.StatusFail)
	for range maxRetries + 2 {
		d.pass(firstRetry << maxRetries)
	}
	if d.Waiting() != 0 || d.bytes != 0 || !slices.Equal(d.unsent, []string{NotWritten}) {
		t.Errorf("after %d retries: %d wait with %d bytes, unsent %v", maxRetries, d.Waiting(), d.bytes, d.unsent)
	}
}

// Number and bytes of waiting results are bounded.
func TestWriterBounds(t *testing.T) {
	d := newDesk(func(*Options) {})
	for i := range maxWaiting + 5 {
		d.Put(podRequest(fmt.Sprint(i), policy.Create), []policy.Result{found("r", policy.StatusPass)})
	}
	if d.Waiting() != maxWaiting || len(d.unsent) != 5 || d.unsent[0] != QueueFull {
		t.Errorf("%d wait, %d unsent", d.Waiting(), len(d.unsent))
	}
	d = newDesk(func(*Options) {})
	long := found("r", policy.StatusFail)
	long.Message = strings.Repeat("m", 1<<20)
	for i := range 40 {
		d.Put(podRequest(fmt.Sprint(i), policy.Create), []policy.Result{long})
	}
	if d.Waiting() > 17 || len(d.unsent) != 40-d.Waiting() {
		t.Errorf("%d wait, %d unsent", d.Waiting(), len(d.unsent))
	}
	d.pass(gather)
	if d.bytes != 0 || len(d.written) == 0 || len(d.written[0].Results[0].Message) > 10<<10 {
		t.Errorf("%d bytes wait, %d written", d.bytes, len(d.written))
	}
}

// The row has a round when results are due, and none while nothing waits.
func TestWriterRow(t *testing.T) {
	d := newDesk(func(*Options) {})
	round := func(want time.Duration, written string) {
		t.Helper()
		next, err := d.Row().Reconcile(t.Context(), "")
		if said := d.said(); next != want || err != nil || said != written {
			t.Errorf("next round after %v, want %v; %v, written %q", next, want, err, said)
		}
	}
	round(0, "")
	d.Put(podRequest("a", policy.Create), []policy.Result{found("r", policy.StatusPass)})
	round(gather, "")
	d.at = d.at.Add(gather - time.Millisecond)
	round(look, "")
	d.at = d.at.Add(time.Millisecond)
	round(0, "a:p/r=pass@100")
}

// Waiting results are written when the process stops; later results are not accepted.
func TestWriterDrains(t *testing.T) {
	d := newDesk(func(*Options) {})
	d.Put(podRequest("a", policy.Create), []policy.Result{found("r", policy.StatusPass)})
	ctx, stop := context.WithCancel(context.Background())
	stop()
	d.End(ctx)
	if got := d.said(); got != "a:p/r=pass@100" {
		t.Errorf("written: %q", got)
	}
	d.Put(podRequest("b", policy.Create), []policy.Result{found("r", policy.StatusPass)})
	if d.Waiting() != 0 || len(d.unsent) != 1 {
		t.Errorf("%d wait, unsent %v", d.Waiting(), d.unsent)
	}
	var none *Writer
	none.Put(podRequest("a", policy.Create), []policy.Result{found("r", policy.StatusPass)})
}

// T24: waiting results hold no part of the text of a review, which is larger than what is counted.
func TestT24WaitingResultsHoldNoReview(t *testing.T) {
	review := strings.Repeat("x", 1<<20)
	of := func(part string) bool {
		at, first := uintptr(unsafe.Pointer(unsafe.StringData(part))), uintptr(unsafe.Pointer(unsafe.StringData(review)))
		return at >= first && at < first+uintptr(len(review))
	}
	d := newDesk(func(*Options) {})
	r := found("r", policy.StatusFail)
	r.Message, r.Path, r.Properties = review[:10], review[:10], map[string]string{review[:10]: review[:10]}
	req := podRequest("a", policy.Create)
	req.Name, req.Namespace = review[:5], review[:5]
	d.Put(req, []policy.Result{r})
	if d.Waiting() != 1 {
		t.Fatal("nothing waits")
	}
	for _, p := range d.waiting {
		e := p.parts[0].entries[0]
		for k, v := range e.Properties {
			if of(k) || of(v) {
				t.Error("a property is a part of the review")
			}
		}
		if of(e.Message) || of(e.Path) || of(p.resource.Name) || of(p.resource.Namespace) || of(e.Resource.Name) {
			t.Error("a text of the result is a part of the review")
		}
	}
}

// Policies of two kinds may have one name, and their rules none.
func TestWriterKeepsKindsApart(t *testing.T) {
	d := newDesk(func(*Options) {})
	of := func(kind, source string) []policy.Result {
		x := found("", policy.StatusFail)
		x.Program.Kind, x.Program.Names.Source = kind, source
		return []policy.Result{x}
	}
	d.Put(podRequest("a", policy.Create), of("ValidatingPolicy", "KyvernoValidatingPolicy"))
	d.Put(podRequest("a", policy.Create), of("ImageValidatingPolicy", "KyvernoImageValidatingPolicy"))
	d.pass(gather)
	if got := d.said(); got != "a:p/=fail@100 a:p/=fail@100" {
		t.Error(got)
	}
}
