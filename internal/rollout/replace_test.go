package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/policy"
)

// The results of one resource are compared over all rules and policies; results of a policy of the same name in the other language do not count.
func TestReplacement(t *testing.T) {
	r := &Replacement{Old: &policy.Program{Name: "team"}, New: []*policy.Program{{Name: "team", Names: policy.Names{Source: "CEL"}}, {Name: "team-2", Names: policy.Names{Source: "CEL"}}}}
	one := func(source, name, object, result string) {
		r.Add(compliance.Report{Results: []compliance.Result{{
			Policy: name, Source: source, Result: compliance.Status(result), Message: "m", Resource: compliance.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: object},
		}}})
	}
	one("kyverno", "team", "same", "fail")
	one("CEL", "team-2", "same", "fail")
	one("CEL", "team", "same", "pass")
	one("kyverno", "team", "stricter", "pass")
	one("CEL", "team", "stricter", "fail")
	one("kyverno", "team", "laxer", "error")
	one("CEL", "team", "laxer", "skip")
	one("CEL", "team-2", "only", "warn")
	one("CEL", "other", "x", "fail")
	var got []string
	for _, u := range r.Differences() {
		got = append(got, fmt.Sprint(u.Resource.Name, ": ", u.Old, ", ", u.New))
	}
	if s := strings.Join(got, "; "); s != "laxer: error (m), pass; only: pass, fail (m); stricter: pass, fail (m)" {
		t.Error(s)
	}
	if old, made := r.Resources(); old != 3 || made != 4 {
		t.Error(old, made)
	}
}

func TestTrial(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		trial Trial
		want  string
	}{
		{Trial{Audits: true, Since: now.Add(-7 * 24 * time.Hour), Now: now, Days: 7, Old: 1, New: 1}, ""},
		{Trial{Audits: true, Since: now.Add(-24 * time.Hour), Now: now, Days: 7, Old: 1, New: 1}, "7 days have to pass, and 144h0m0s are left"},
		{Trial{Audits: true, Since: now.Add(-8 * 24 * time.Hour), Now: now, Days: 7, Old: 3, Unlike: 2}, "the results differ for 2 resources or requests; no report has a result of the new policies yet"},
		{Trial{Audits: true, Now: now, NotReady: []string{"ValidatingPolicy p"}}, "ValidatingPolicy p is not ready"},
		{Trial{Changes: true, Now: now, Days: 7}, "policies that change objects cannot audit beside the old one: --decisions or --server has to show requests on which both are compared"},
		{Trial{Changes: true, Now: now, Days: 7, Requests: 5}, ""},
		{
			Trial{Audits: true, Changes: true, Since: now.Add(-7 * 24 * time.Hour), Now: now, Days: 7, Old: 1, New: 1},
			"policies that change objects cannot audit beside the old one: --decisions or --server has to show requests on which both are compared",
		},
		{Trial{Audits: true, Changes: true, Since: now.Add(-7 * 24 * time.Hour), Now: now, Days: 7, Old: 1, New: 1, Requests: 5}, ""},
		{Trial{Audits: true, Unread: true, Since: now.Add(-7 * 24 * time.Hour), Now: now, Days: 7, Old: 1, New: 1}, "some reports could not be read"},
	} {
		if got := strings.Join(c.trial.Blockers(), "; "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.trial, got, c.want)
		}
	}
}
