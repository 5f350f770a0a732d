package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

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

// answerExceptions lists the exceptions in the cluster that the user may list, those that end first at the top.
func (d *Dashboard) answerExceptions(r *http.Request) (any, error) {
	if len(r.URL.Query()) > 0 {
		return nil, badRequest{errors.New("the list of exceptions has no parameters")}
	}
	c, err := d.clusterOf(bearer(r))
	if err != nil {
		return nil, err
	}
	pending := map[string]bool{}
	if d.o.Pending != nil {
		for _, e := range d.o.Pending() {
			pending[e.UID] = true
		}
	}
	out := exceptionsJSON{Exceptions: []exceptionJSON{}, Approval: d.o.Pending != nil}
	denied, err := c.storedExceptions(r.Context(), d.visible(viewOf(r)), func(object map[string]any) bool {
		if out.More = len(out.Exceptions) == maxExceptions; out.More {
			return false
		}
		s, e := policystatus.Summarize(compile.Object{Value: object}, exceptionsSoon, d.o.Now())
		one := exceptionJSON{ExceptionSummary: s, Stale: s.Stale(d.o.Now())}
		switch approval := approvalOf(object); {
		case pending[e.UID]:
			s.State = policystatus.ExceptionPending
		case out.Approval:
			one.ApprovedBy = approval
		}
		out.Exceptions = append(out.Exceptions, one)
		return true
	})
	if err != nil {
		return nil, err
	}
	out.Denied = denied > 0
	slices.SortStableFunc(out.Exceptions, func(a, b exceptionJSON) int { return policystatus.CompareEnds(a.ExceptionSummary, b.ExceptionSummary) })
	return out, nil
}

func approvalOf(object map[string]any) string {
	s, _ := object["status"].(map[string]any)
	approval, _ := s["approval"].(map[string]any)
	by, _ := approval["by"].(string)
	return by
}

// storedExceptions passes the exceptions of both groups that the user may list to take, until take returns false.
func (c *cluster) storedExceptions(ctx context.Context, visible []string, take func(map[string]any) bool) (denied int, err error) {
	for _, x := range c.o.Families.Exceptions() {
		found, err := c.o.Discovery.Find(policy.Target{Group: x.Group, Version: x.Versions[0], Kind: x.Kind})
		if err != nil || len(found) == 0 {
			continue // the kind is not served
		}
		n, err := c.listed(ctx, found[0], nil, visible, "application/json", func(object map[string]any) bool {
			object["apiVersion"], object["kind"] = found[0].APIVersion(), found[0].Kind // items of a list have no apiVersion and kind
			return take(object)
		})
		if err != nil {
			return denied, fmt.Errorf("list exceptions: %w", err)
		}
		denied += n
	}
	return denied, nil
}
