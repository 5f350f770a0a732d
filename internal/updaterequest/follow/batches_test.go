package follow

import (
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/updaterequest"
)

// requests returns the triggers of each UpdateRequest, sorted, with the ones that failed marked.
func (s *site) requests(t *testing.T) (out []string) {
	t.Helper()
	list := &kyvernov2.UpdateRequestList{}
	if err := s.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		text := string(list.Items[i].Status.State)
		for _, r := range updaterequest.Rules(&list.Items[i].Spec) {
			text += " " + r.Trigger.Name
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// Each trigger of a round gets work, also if an UpdateRequest of an earlier round still exists: because it waits, or because it failed.
func TestBatchesOfTwoRounds(t *testing.T) {
	for name, c := range map[string]struct {
		state          kyvernov2.UpdateRequestState
		second, result []string
	}{
		"the same, waiting":  {"", []string{"a", "b"}, []string{" a b"}},
		"a new one, waiting": {kyvernov2.Pending, []string{"new", "a", "b"}, []string{" new", "Pending a b"}},
		"others, waiting":    {"", []string{"c"}, []string{" a b", " c"}},
		"the same, failed":   {kyvernov2.Failed, []string{"a", "b"}, []string{" a b"}},
		"a new one, failed":  {kyvernov2.Failed, []string{"new", "b"}, []string{" new b"}},
		"executed":           {kyvernov2.Completed, []string{"a", "new"}, []string{" new", "Completed a b"}},
	} {
		s := newSite(t, interceptor.Funcs{})
		s.add("p")
		f := s.follower()
		round := func(names ...string) {
			t.Helper()
			b := &batches{f: f, program: s.policies["p"], rule: s.policies["p"].Rules[0], ctx: t.Context(), why: "existing"}
			for _, name := range names {
				if err := b.add(kyvernov2.ResourceSpec{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: name}); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.flush(); err != nil {
				t.Fatal(err)
			}
		}
		round("a", "b")
		list := &kyvernov2.UpdateRequestList{}
		if err := s.client.List(t.Context(), list); err != nil || len(list.Items) != 1 {
			t.Fatal(err, len(list.Items))
		}
		list.Items[0].Status.State = c.state
		if err := s.client.Update(t.Context(), &list.Items[0]); err != nil {
			t.Fatal(err)
		}
		round(c.second...)
		round(c.second...) // nothing is written twice
		if got := s.requests(t); !slices.Equal(got, c.result) {
			t.Errorf("%s: %q, want %q", name, got, c.result)
		}
	}
}
