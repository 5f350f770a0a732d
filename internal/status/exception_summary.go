package status

import (
	"cmp"
	"slices"
	"time"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
)

// The states of an exception.
const (
	ExceptionInForce  = "in force"
	ExceptionEndsSoon = "ends soon"
	ExceptionEnded    = "ended"
	ExceptionMistake  = "mistake"
	ExceptionPending  = "pending"
)

// ExceptionSummary says who answers for an exception, when it ends and how it is used, for people.
type ExceptionSummary struct {
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Group     string   `json:"group"`
	Policies  []string `json:"policies"`
	Reason    string   `json:"reason,omitempty"`
	Owner     string   `json:"owner,omitempty"`
	Ends      string   `json:"ends,omitempty"`
	State     string   `json:"state"`
	Mistake   string   `json:"mistake,omitempty"`
	// Objects is the number of reported objects that the exception exempts. Needed and Unneeded are those for which a scan evaluated the
	// rules without exceptions, too.
	Objects  int `json:"objects"`
	Needed   int `json:"needed"`
	Unneeded int `json:"unneeded"`
	// Last is the last exempt request, PerDay the mean number of them, and Rules those from which requests were exempt.
	Last   string   `json:"lastUse,omitempty"`
	PerDay *float64 `json:"usesPerDay,omitempty"`
	Rules  []string `json:"rules,omitempty"`
}

// Summarize returns an exception as it is stored, and its summary with the numbers of its status. An exception that ends within the given
// time ends soon.
func Summarize(o compile.Object, within time.Duration, now time.Time) (*ExceptionSummary, *policy.Exception) {
	e, diags := compile.OneException(o)
	s := &ExceptionSummary{Namespace: e.Namespace, Name: e.Name, Group: e.ID().Group, Policies: []string{}, Reason: e.Reason, Owner: e.Owner, State: ExceptionInForce}
	for _, r := range e.Rules {
		if !slices.Contains(s.Policies, r.Policy) {
			s.Policies = append(s.Policies, r.Policy)
		}
	}
	if !e.Expires.IsZero() {
		s.Ends = e.Expires.UTC().Format(time.RFC3339)
	}
	if use := UseOf(o.Value); use != nil {
		perDay := PerDay(use, now)
		s.Last, s.PerDay, s.Rules = use.Last.UTC().Format(time.RFC3339), &perDay, use.Rules
	}
	if x := ObjectsOf(o.Value); x != nil {
		s.Objects, s.Needed, s.Unneeded = int(x.Exempt), int(x.Needed), int(x.Unneeded)
	}
	switch errs := diags.Errors(); {
	case len(errs) > 0:
		s.State, s.Mistake = ExceptionMistake, errs[0].String()
	case e.Expired(now):
		s.State = ExceptionEnded
	case !e.Expires.IsZero() && e.Expires.Sub(now) <= within:
		s.State = ExceptionEndsSoon
	}
	return s, e
}

// Key returns namespace/name.
func (s *ExceptionSummary) Key() string {
	return policy.ExceptionID{Namespace: s.Namespace, Name: s.Name}.Key()
}

// stillUsed is the time for which an exception that exempted a request is not stale, since its objects may be gone, such as those of a Job.
const stillUsed = exceptionDays * 24 * time.Hour

// Stale reports whether no object needs the exception, as far as reports and requests show.
func (s *ExceptionSummary) Stale(now time.Time) bool {
	if s.Objects > 0 {
		return s.Needed == 0 && s.Unneeded == s.Objects
	}
	last, err := time.Parse(time.RFC3339, s.Last)
	return err != nil || now.Sub(last) > stillUsed
}

// CompareEnds orders exceptions by their ends; those without an end are the last.
func CompareEnds(a, b *ExceptionSummary) int {
	if (a.Ends == "") != (b.Ends == "") {
		return len(b.Ends) - len(a.Ends)
	}
	return cmp.Or(cmp.Compare(a.Ends, b.Ends), cmp.Compare(a.Key(), b.Key()), cmp.Compare(a.Group, b.Group))
}
