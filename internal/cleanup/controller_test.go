package cleanup

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schedule"
)

// counted is an Observer that records calls.
type counted struct{ requeued, dropped int }

func (*counted) CleanupDeleted(*policy.Program, string, string, string) {}
func (*counted) CleanupFailed(*policy.Program, string, string, string)  {}
func (*counted) CleanupStopped(*policy.Program)                         {}
func (*counted) Reconciled(string)                                      {}
func (c *counted) Requeued(string, int)                                 { c.requeued++ }
func (c *counted) Dropped(string)                                       { c.dropped++ }

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func object(schedule, created, last string, annotations map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": "p", "uid": "u", "generation": int64(1), "creationTimestamp": created}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	o := map[string]any{
		"apiVersion": "kyverno.io/v2", "kind": "ClusterCleanupPolicy", "metadata": metadata,
		"spec": map[string]any{"schedule": schedule, "match": map[string]any{"any": []any{map[string]any{"resources": map[string]any{"kinds": []any{"Pod"}}}}}},
	}
	if last != "" {
		o["status"] = map[string]any{"lastExecutionTime": last}
	}
	return &unstructured.Unstructured{Object: o}
}

func newController(now *time.Time) (*Controller, *counted) {
	c := &counted{}
	return New(Options{Observer: c, Events: event.Discard, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return *now }}), c
}

// addPolicy adds a policy to the controller as the intake does.
func addPolicy(c *Controller, u *unstructured.Unstructured) {
	program, _ := compile.One(compile.Object{Value: u.Object})
	c.Set(u, program)
}

// A policy runs at the first time of its schedule after its last run, or after its creation.
func TestDue(t *testing.T) {
	now := at("2026-01-31T12:00:00Z")
	for _, c := range []struct{ schedule, created, last, want string }{
		{"0 * * * *", "2026-01-31T11:30:00Z", "", "2026-01-31T12:00:00Z"},
		{"0 * * * *", "2026-01-31T11:30:00Z", "2026-01-31T12:00:00Z", "2026-01-31T13:00:00Z"},
		{"0 * * * *", "2026-01-31T12:00:00Z", "", "2026-01-31T13:00:00Z"},
		{"0 * * * *", "2026-01-01T00:00:00Z", "2026-01-30T00:00:00Z", "2026-01-30T01:00:00Z"}, // missed times cause one run
		{"0 * * * *", "2026-01-31T11:30:00Z", "no time", "2026-01-31T12:00:00Z"},
		{"*/5 * * * *", "2026-01-31T11:30:00Z", "2026-01-31T12:06:00Z", "2026-01-31T12:10:00Z"}, // by a clock that is ahead
		{"0 * * * *", "2026-01-31T11:30:00Z", "2099-01-31T12:00:00Z", "2026-01-31T12:00:00Z"},   // by a clock that was wrong
	} {
		ctl, _ := newController(&now)
		u := object(c.schedule, c.created, c.last, nil)
		addPolicy(ctl, u)
		if got := ctl.due(ctl.policies[key(u)]).Format(time.RFC3339); got != c.want {
			t.Errorf("%+v: due %s", c, got)
		}
	}
}

// A clock that is set back does not keep a policy from running until the clock is where it was.
func TestClockThatIsSetBack(t *testing.T) {
	now := at("2027-01-31T12:00:10Z") // by mistake
	c, _ := newController(&now)
	u := object("0 * * * *", "2026-01-31T11:30:00Z", "", nil)
	addPolicy(c, u)
	c.finish(c.policies[key(u)], outcome{done: true}, now)
	for _, step := range []struct{ now, want string }{
		{"2027-01-31T12:00:20Z", "2027-01-31T13:00:00Z"},
		{"2026-01-31T12:00:30Z", "2026-01-31T12:00:00Z"},
	} {
		now = at(step.now)
		if got := c.due(c.policies[key(u)]).Format(time.RFC3339); got != step.want {
			t.Errorf("at %s: due %s, want %s", step.now, got, step.want)
		}
	}
}

// The result of a run determines the next attempt.
func TestFinish(t *testing.T) {
	now := at("2026-01-31T12:00:10Z")
	u := object("0 * * * *", "2026-01-31T11:30:00Z", "", nil)
	due := func(outs ...outcome) string {
		c, seen := newController(&now)
		addPolicy(c, u)
		e := c.policies[key(u)]
		for _, out := range outs {
			c.finish(e, out, now)
		}
		return fmt.Sprint(c.due(e).Format("15:04:05"), " ", seen.requeued, seen.dropped)
	}
	failed := outcome{failed: errors.New("x")}
	tenTimes := make([]outcome, maxFailures)
	for i := range tenTimes {
		tenTimes[i] = failed
	}
	for name, c := range map[string]struct {
		outs []outcome
		want string
	}{
		"done":              {[]outcome{{done: true}}, "13:00:00 0 0"},
		"stale":             {[]outcome{{stale: true}}, "12:00:11 0 0"},
		"stale thrice":      {[]outcome{{stale: true}, {stale: true}, {stale: true}}, "12:00:14 0 0"},
		"failed":            {[]outcome{failed}, "12:00:11 1 0"},
		"failed thrice":     {[]outcome{failed, failed, failed}, "12:00:14 3 0"},
		"failed ten times":  {tenTimes, "13:00:00 9 1"},
		"failed, then done": {[]outcome{failed, {done: true}}, "13:00:00 1 0"},
		"over the limit":    {[]outcome{{stopped: errors.New("x")}}, "13:00:00 0 0"},
	} {
		if got := due(c.outs...); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// An edit takes effect at once and ends a run of the old version; a status or a claim of ours does not.
func TestSet(t *testing.T) {
	now := at("2026-01-31T12:00:10Z")
	c, _ := newController(&now)
	set := func(u *unstructured.Unstructured) (*policyState, *bool) {
		addPolicy(c, u)
		e, ended := c.policies[key(u)], new(bool)
		e.stop = func() { *ended = true }
		return e, ended
	}
	first, ended := set(object("0 * * * *", "2026-01-31T11:30:00Z", "", nil))
	c.finish(first, outcome{stale: true}, now)
	same, _ := set(object("0 * * * *", "2026-01-31T11:30:00Z", "2026-01-31T12:00:00Z", map[string]any{ClaimAnnotation: "x"}))
	if same != first || *ended || c.due(first).Format("15:04") != "13:00" || !first.pause.IsZero() {
		t.Error("a status counts as an edit, or was not stored, or a run that was stale goes on waiting")
	}
	_, ended = set(object("0 * * * *", "2026-01-31T11:30:00Z", "", nil))
	preview, _ := set(object("0 * * * *", "2026-01-31T11:30:00Z", "", map[string]any{PreviewAnnotation: "true"}))
	if preview == first || !*ended {
		t.Error("the annotation for previews does not end a run that deletes")
	}
	_, ended = set(preview.object)
	c.Delete(preview.object)
	if !*ended || len(c.policies) != 0 {
		t.Error("a deleted policy keeps running")
	}
}

// A policy that audits first has no run, a run in progress ends, and it runs again once it is released, although its object is the same.
func TestAuditFirst(t *testing.T) {
	now := at("2026-01-31T12:00:10Z")
	c, _ := newController(&now)
	u := object("0 * * * *", "2026-01-31T11:30:00Z", "", nil)
	addPolicy(c, u)
	program, ended := c.policies[key(u)].program, false
	c.policies[key(u)].stop = func() { ended = true }
	c.Set(u, program.AuditFirst())
	if do, wait := c.next(c.policies[key(u)]); !ended || do != nil || wait != 0 {
		t.Errorf("the run has ended: %v, another begins: %v, or is due in %s", ended, do != nil, wait)
	}
	c.Set(u, program)
	if e := c.policies[key(u)]; e.program != program || c.due(e).Format("15:04") != "12:00" {
		t.Error("the released policy is not due")
	}
}

// A misspelled value of the annotation must not delete anything.
func TestPreviews(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "false": false, "yes": true, "": true, "False": true} {
		if Previews(map[string]string{PreviewAnnotation: value}) != want {
			t.Errorf("%q", value)
		}
	}
	if Previews(nil) {
		t.Error("no annotation")
	}
}

func TestListing(t *testing.T) {
	pod := func(name string) Object {
		return Object{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "a", Name: name}
	}
	for _, c := range []struct {
		objects []Object
		want    string
	}{
		{nil, "0 objects"},
		{[]Object{pod("x")}, "1 object: Pod/a/x"},
		{[]Object{pod("x"), pod("y"), pod("z")}, "3 objects: Pod/a/x, Pod/a/y and 1 more"},
	} {
		if got := Listing(c.objects, 2); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A run that failed, or was stopped, does not begin again when its schedule has no further time.
func TestFinishWithoutFurtherTime(t *testing.T) {
	now := at("2026-01-31T12:00:10Z")
	last, err := schedule.ParseExtended("0 12 31 1 ? 2026")
	if err != nil {
		t.Fatal(err)
	}
	for name, outs := range map[string][]outcome{
		"over the limit": {{stopped: errors.New("x")}}, "failed ten times": slices.Repeat([]outcome{{failed: errors.New("x")}}, maxFailures),
	} {
		c, _ := newController(&now)
		u := object("0 * * * *", "2026-01-31T11:30:00Z", "", nil)
		addPolicy(c, u)
		e := c.policies[key(u)]
		e.program.Schedule = last
		if work, _ := c.next(e); work == nil {
			t.Fatalf("%s: the run is not due", name)
		}
		for _, out := range outs {
			c.finish(e, out, now)
		}
		if work, _ := c.next(e); work != nil {
			t.Errorf("%s: the run begins again at once", name)
		}
	}
}
