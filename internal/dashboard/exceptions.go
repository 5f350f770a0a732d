package dashboard

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"ephor.invalid/ephor/internal/cluster"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
	policystatus "ephor.invalid/ephor/internal/status"
)

// The limits of the page of exceptions.
const (
	maxExceptions  = 5000
	exceptionsSoon = 14 * 24 * time.Hour // an exception that ends within this time ends soon
)

// exceptionsJSON is the answer with the exceptions that the user may list.
type exceptionsJSON struct {
	Exceptions []exceptionJSON `json:"exceptions"`
	// Approval: the installation requires an approval of each exception.
	Approval bool `json:"approval,omitempty"`
	// More: there are more exceptions than are listed. Denied: the user may not list all of them.
	More   bool `json:"more,omitempty"`
	Denied bool `json:"denied,omitempty"`
}

type exceptionJSON struct {
	*policystatus.ExceptionSummary
	Stale      bool   `json:"stale,omitempty"`
	ApprovedBy string `json:"approvedBy,omitempty"`
}

// listsExceptions reports whether there is a page of exceptions.
func (d *Dashboard) listsExceptions() bool {
	return d.o.Discovery != nil && (d.o.Tokens == nil || d.o.As != nil)
}

// inForce returns the exceptions that take effect: those in a namespace whose exceptions count, and that wait for no approval.
func (d *Dashboard) inForce(all []*policy.Exception) []*policy.Exception {
	pending := d.pending()
	return slices.DeleteFunc(all, func(e *policy.Exception) bool {
		return pending[e.UID] || d.o.AcceptsExceptions != nil && !d.o.AcceptsExceptions(e.Namespace)
	})
}

// pending returns the UIDs of the exceptions that wait for an approval.
func (d *Dashboard) pending() map[string]bool {
	out := map[string]bool{}
	if d.o.Pending != nil {
		for _, e := range d.o.Pending() {
			out[e.UID] = true
		}
	}
	return out
}

// answerExceptions lists the exceptions in the cluster that the user may list, those that end first at the top.
func (d *Dashboard) answerExceptions(r *http.Request) (any, error) {
	if len(r.URL.Query()) > 0 {
		return nil, badRequest{errors.New("the list of exceptions has no parameters")}
	}
	c, err := d.clusterOf(bearer(r))
	if err != nil {
		return nil, err
	}
	pending := d.pending()
	out := exceptionsJSON{Exceptions: []exceptionJSON{}, Approval: d.o.Pending != nil}
	var errs []error
	for object, err := range c.StoredExceptions(r.Context(), cluster.Where{Visible: d.visible(viewOf(r))}) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if out.More = len(out.Exceptions) == maxExceptions; out.More {
			break
		}
		out.Exceptions = append(out.Exceptions, d.exception(object, pending, out.Approval))
	}
	n, err := denied(errs)
	if err != nil {
		return nil, err
	}
	out.Denied = n > 0
	slices.SortStableFunc(out.Exceptions, func(a, b exceptionJSON) int { return policystatus.CompareEnds(a.ExceptionSummary, b.ExceptionSummary) })
	return out, nil
}

// exception returns an exception for the list.
func (d *Dashboard) exception(object map[string]any, pending map[string]bool, approval bool) exceptionJSON {
	s, e := policystatus.Summarize(compile.Object{Value: object}, exceptionsSoon, d.o.Now())
	out := exceptionJSON{ExceptionSummary: s, Stale: s.Stale(d.o.Now())}
	switch {
	case pending[e.UID]:
		s.State = policystatus.ExceptionPending
	case approval:
		out.ApprovedBy = approvalOf(object)
	}
	return out
}

func approvalOf(object map[string]any) string {
	s, _ := object["status"].(map[string]any)
	approval, _ := s["approval"].(map[string]any)
	by, _ := approval["by"].(string)
	return by
}
