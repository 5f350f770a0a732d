package preflight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The definitions for work and for reports.
const (
	workDefinition = "updaterequests.kyverno.io"
	reportsOf      = "policyreports.wgpolicyk8s.io"
	wideReportsOf  = "clusterpolicyreports.wgpolicyk8s.io"
)

func (s *state) checkWork(ctx context.Context) {
	for _, d := range s.definitions {
		switch {
		case d.objects == 0:
		case d.name == workDefinition:
			s.requests(ctx, d)
		case d.name == reportsOf || d.name == wideReportsOf:
			s.add(Finding{
				Code: "reports-adopted", Severity: Note, Object: Object{Kind: d.kind},
				Message: fmt.Sprintf("%s; Ephor goes on writing those that Kyverno manages, and leaves those of others alone", objects(d.objects)),
			})
		}
	}
}

// objects returns the number with its noun, in the singular or the plural.
func objects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

// requests counts UpdateRequests by their state.
func (s *state) requests(ctx context.Context, d definition) {
	states := map[string]int{}
	err := s.each(ctx, d.gvk(), func(u *unstructured.Unstructured) {
		state, _, _ := unstructured.NestedString(u.Object, "status", "state")
		states[state]++
	})
	s.unread(Object{Kind: d.kind}, err)
	for _, state := range sorted(states) {
		f := Finding{Code: "request-unfinished", Severity: Note, Object: Object{Kind: d.kind, Namespace: s.Namespace}}
		switch state {
		case "Completed", "Skip":
			continue
		case "Failed":
			f.Message = fmt.Sprintf("%d of them failed: they are tried again after the switch", states[state])
		case "":
			f.Message = fmt.Sprintf("%d of them have no state yet: whichever background controller leads carries them out", states[state])
		default:
			f.Message = fmt.Sprintf("%d of them are %s: whichever background controller leads carries them out", states[state], state)
		}
		f.Commands = []string{"kubectl get updaterequests -n " + s.Namespace}
		s.add(f)
	}
}
