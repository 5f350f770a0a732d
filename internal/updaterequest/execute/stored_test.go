package execute

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// The watch of policies of this replica is interrupted, and another replica admits a request for a policy that this one does not know. The
// work waits for the policy. It is dropped only if the policy does not exist.
func TestWorkWaitsForItsPolicy(t *testing.T) {
	none := func(context.Context, policy.ID) (*metav1.ObjectMeta, error) { return nil, nil }
	changed := func(context.Context, policy.ID) (*metav1.ObjectMeta, error) {
		return &metav1.ObjectMeta{UID: "p", Generation: 2}, nil
	}
	for name, c := range map[string]struct {
		stored   updaterequest.Stored
		without  bool          // whether this replica knows the policy without the rule, as generation 1
		known    time.Duration // when this replica gets to know the rule
		after    time.Duration // when the work has ended
		made     bool
		hasError bool
	}{
		"a new policy":                {stored: changed, known: 90 * time.Second, after: 2 * time.Minute, made: true},
		"a changed policy":            {stored: changed, without: true, known: 90 * time.Second, after: 2 * time.Minute, made: true},
		"a policy that is never read": {stored: changed, known: time.Hour, after: 10 * time.Minute, hasError: true},
		"a deleted policy":            {stored: none, known: time.Hour, after: 10 * time.Second},
		"a deleted rule": {stored: func(context.Context, policy.ID) (*metav1.ObjectMeta, error) {
			return &metav1.ObjectMeta{UID: "p", Generation: 1}, nil
		}, without: true, known: time.Hour, after: 10 * time.Second},
		"no reads":                   {known: 90 * time.Second, after: 2 * time.Minute, made: true},
		"no reads, a deleted policy": {known: time.Hour, after: 3 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			trigger := configMapOf("n", "there", "u1", triggers)
			w, _ := newMarked(t, trigger)
			program := w.Snapshot().Programs()[0]
			u := workOf(t, "anybody", triggerSpec("n", "there", "u1"), "CREATE", "u", trigger)
			stored := withRequest(t, w, interceptor.Funcs{}, u, trigger)
			began := time.Now()
			w.Stored = c.stored
			w.Snapshot = func() *catalog.Snapshot {
				switch {
				case time.Since(began) >= c.known:
					return catalog.NewStatic([]*policy.Program{program})
				case c.without:
					return catalog.NewStatic([]*policy.Program{{Kind: program.Kind, Name: program.Name, UID: "p", Generation: 1}})
				}
				return catalog.NewStatic(nil)
			}
			looks, row := 0, failures(0)
			for again := time.Nanosecond; again > 0; looks++ {
				time.Sleep(again)
				again = row.attempt(t, w, u.Name)
			}
			if took := time.Since(began); took > c.after || looks > 60 {
				t.Errorf("%s: %d looks in %s", name, looks, took)
			}
			if got := slices.Contains(present(t, w), "n/there-made"); got != c.made {
				t.Errorf("%s: made: %v", name, got)
			}
			left, ok := stored()
			if ok != c.hasError || ok && (left.Status.State != kyvernov2.Failed || left.Status.Message == "") {
				t.Errorf("%s: the UpdateRequest exists: %v, %+v", name, ok, left.Status)
			}
		})
	}
}

// Only the metadata of a policy is read.
func TestStoredIn(t *testing.T) {
	w, _ := newMarked(t)
	p := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}
	read := interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, k client.ObjectKey, o client.Object, _ ...client.GetOption) error {
		if k.Name == "away" {
			return errors.New("the API server is away")
		}
		m := o.(*metav1.PartialObjectMetadata)
		if m.APIVersion != "kyverno.io/v1" || m.Kind != "Policy" || k.Namespace != "n" {
			return errors.New("another object")
		}
		p.DeepCopyInto(m)
		return nil
	}})
	for _, c := range []struct {
		name          string
		known         *policy.Program
		differs, fail bool
	}{
		{"p", nil, true, false}, {"p", &policy.Program{UID: "p"}, false, false}, {"p", &policy.Program{UID: "earlier"}, true, false},
		{"p", &policy.Program{UID: "p", Generation: 1}, true, false}, {"away", nil, false, true},
	} {
		differs, err := updaterequest.StoredIn(read).Differs(t.Context(), policy.ID{Kind: "Policy", Namespace: "n", Name: c.name}, c.known)
		if differs != c.differs || (err != nil) != c.fail {
			t.Errorf("%s, known as %+v: %v, %v", c.name, c.known, differs, err)
		}
	}
	if o, err := updaterequest.StoredIn(w.Client)(t.Context(), policy.ID{Kind: "ClusterPolicy", Name: "none"}); o != nil || err != nil {
		t.Errorf("%v, %v, of a policy that does not exist", o, err)
	}
}
