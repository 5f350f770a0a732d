package status

import (
	"maps"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
)

// An exception that ends soon has one event for each end, and a pending one has one until it is approved and pending again. Both are counted.
func TestExceptionsEnding(t *testing.T) {
	c := catalog.New()
	end := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	set := func(name string, end time.Time, soon bool) {
		c.SetException(&policy.Exception{APIVersion: "kyverno.io/v2", Kind: "PolicyException", Namespace: "n", Name: name, UID: name, Expires: end, EndsSoon: soon})
	}
	set("soon", end, true)
	set("later", end.AddDate(1, 0, 0), false)
	set("never", time.Time{}, false)
	of := func(name string, status any) *policy.Exception {
		return &policy.Exception{APIVersion: "kyverno.io/v2", Kind: "PolicyException", Namespace: "n", Name: name, UID: name, Source: func() map[string]any { return map[string]any{"status": status} }}
	}
	pending := []*policy.Exception{of("new", nil), of("restored", map[string]any{"approval": map[string]any{"seal": "s"}})}
	events := &recordedEvents{}
	row := ExceptionsEnding(c, func() []*policy.Exception { return pending }, events)
	expect := func(what string, want ...string) {
		t.Helper()
		events.all = nil
		again, err := row.Reconcile(t.Context(), "")
		if err != nil || again != time.Minute {
			t.Fatalf("%s: again in %s, %v", what, again, err)
		}
		ok := len(events.all) == len(want)
		for i := range want {
			reason, note, _ := strings.Cut(want[i], ": ")
			ok = ok && events.all[i].Reason == reason && events.all[i].Type == event.Warning && strings.Contains(events.all[i].Note, note)
		}
		if !ok {
			t.Errorf("%s: %+v, want %q", what, events.all, want)
		}
	}
	expect("at first", "ExceptionEnding: ends at 2026-01-31T12:00:00Z", "ExceptionPending: until a user who may approve", "ExceptionPending: was changed, copied or restored")
	expect("again")
	set("soon", end.AddDate(0, 0, 1), true)
	pending = pending[1:]
	expect("another end", "ExceptionEnding: ends at 2026-02-01T12:00:00Z")
	pending = append(pending, of("new", nil))
	expect("pending again", "ExceptionPending: until a user")
	if got, want := ExceptionStates(c.Snapshot(), len(pending)), map[string]int{"in_force": 2, "ends_soon": 1, "pending": 2}; !maps.Equal(got, want) {
		t.Errorf("the states are %v, want %v", got, want)
	}
}
