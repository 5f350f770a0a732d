package follow

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/seal"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// site is a cluster with the policies that a replica knows, and with its record of generated objects.
type site struct {
	client   client.WithWatch
	catalog  *catalog.Catalog
	record   *origin.Record
	stored   updaterequest.Stored
	policies map[string]*policy.Program
}

func newSite(t *testing.T, calls interceptor.Funcs) *site {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kyvernov2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithInterceptorFuncs(calls).Build()
	return &site{
		client: c, catalog: catalog.New(), policies: map[string]*policy.Program{},
		record: origin.New(origin.Options{Client: c, Namespace: "ephor", Log: slog.New(slog.DiscardHandler)}),
	}
}

// follower returns the Follower of a new leader.
func (s *site) follower() *Follower {
	log := slog.New(slog.DiscardHandler)
	key, err := seal.NewKey(make([]byte, seal.KeySize))
	if err != nil {
		panic(err)
	}
	ring, err := seal.NewKeyring(key)
	if err != nil {
		panic(err)
	}
	return &Follower{
		Client: s.client, Namespace: "ephor", Snapshot: s.catalog.Snapshot, Stored: s.stored, Events: event.Discard, Now: time.Now, Every: time.Hour, Log: log, Rules: noRules{},
		Made: &origin.Objects{
			Client: s.client, Record: s.record, Events: event.Discard, Log: log, Keys: func(context.Context, bool) (*seal.Keyring, error) { return ring, nil },
		},
	}
}

// noRules applies no rule, and proves no object.
type noRules struct{}

func (noRules) Applies(context.Context, *policy.Program, *policy.Rule, *unstructured.Unstructured) bool {
	return false
}

func (noRules) Proofs([]*unstructured.Unstructured) func(context.Context, *policy.Program, *policy.Rule, *unstructured.Unstructured) (origin.Entry, bool, error) {
	return func(context.Context, *policy.Program, *policy.Rule, *unstructured.Unstructured) (origin.Entry, bool, error) {
		return origin.Entry{}, false, nil
	}
}

// add adds a policy with one rule, which has the policy's name and generates ConfigMaps.
func (s *site) add(name string) {
	s.policies[name] = &policy.Program{Kind: "ClusterPolicy", Name: name, UID: name, Rules: []*policy.Rule{{
		Name: name, Stage: policy.StageGenerate, WorkPlan: policy.WorkPlan{
			Generation: &policy.Generation{Synchronize: true},
			Grants:     []policy.Grant{{APIVersion: "v1", Kind: "ConfigMap", Name: "*", Verbs: []string{"create"}}},
		},
	}}}
	s.catalog.Set(s.policies[name])
}

func (s *site) remove(name string) { s.catalog.Delete(policy.ID{Kind: "ClusterPolicy", Name: name}) }

// make generates an object for the rule of a policy.
func (s *site) make(t *testing.T, policyName, name string) {
	t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}}
	if err := s.client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.record.Add(origin.Entry{
		Claim:  mark.Claim{Policy: policyName, Rule: policyName, Trigger: mark.Object{APIVersion: "v1", Kind: "Namespace", Name: "n", UID: "n"}},
		Object: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: name, UID: name},
	})
}

func (s *site) exists(t *testing.T, name string) bool {
	t.Helper()
	err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: name}, &corev1.ConfigMap{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

func once(t *testing.T, f *Follower) time.Duration {
	t.Helper()
	next, err := f.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// A new leader whose policies are older than those of the former leader deletes no objects of a policy that it does not know yet.
func TestUndoAfterAReadOfThePolicy(t *testing.T) {
	s := newSite(t, interceptor.Funcs{})
	exists := true
	s.stored = func(_ context.Context, id policy.ID) (*metav1.ObjectMeta, error) {
		if !exists || id.Kind != "ClusterPolicy" || id.Name != "new" {
			return nil, nil
		}
		return &metav1.ObjectMeta{UID: "new"}, nil
	}
	s.add("new")
	once(t, s.follower())
	s.make(t, "new", "made")
	s.remove("new") // the catalog of the next leader has no such policy yet
	next := s.follower()
	if _, err := next.Once(t.Context()); err == nil || !s.exists(t, "made") {
		t.Errorf("the policy exists; its object exists: %v, %v", s.exists(t, "made"), err)
	}
	exists = false
	once(t, next)
	if s.exists(t, "made") {
		t.Error("the policy is deleted, and its object is not")
	}
}

// Rules that could not be written to their record are not forgotten: their objects are deleted with them.
func TestRulesThatAreNotStored(t *testing.T) {
	for name, refusal := range map[string]error{
		"forbidden": apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, origin.RulesName, errors.New("no right")),
		"too late":  apierrors.NewTimeoutError("etcd has no leader", 1),
	} {
		refused := false
		s := newSite(t, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if o.GetName() == origin.RulesName && refused {
				return refusal
			}
			return c.Update(ctx, o, opts...)
		}})
		f := s.follower()
		s.add("stored")
		once(t, f)
		refused = true
		s.add("new")
		_, _ = f.Once(t.Context())
		s.make(t, "new", "made")
		s.make(t, "stored", "earlier")
		s.remove("new")
		_, _ = f.Once(t.Context())
		if s.exists(t, "made") {
			t.Errorf("%s: the object of a deleted rule exists", name)
		}
		if !s.exists(t, "earlier") {
			t.Errorf("%s: the object of another rule is deleted", name)
		}
		refused = false
		once(t, f)
		s.remove("stored")
		once(t, s.follower())
		if s.exists(t, "earlier") {
			t.Errorf("%s: the record is not stored when this is possible again", name)
		}
	}
}

// An object that another replica generates for a rule just after the rule and its objects were deleted is deleted too, even if the leader
// changes in between.
func TestLateObjectsOfADeletedRule(t *testing.T) {
	for _, handOver := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, interceptor.Funcs{})
			s.add("p")
			s.add("stays")
			f := s.follower()
			once(t, f)
			s.make(t, "p", "made")
			s.remove("p")
			if next := once(t, f); s.exists(t, "made") || next > lag {
				t.Errorf("the object of the deleted rule exists: %v, and the next round is in %s", s.exists(t, "made"), next)
			}
			if handOver {
				f = s.follower()
			}
			s.make(t, "p", "late")
			s.make(t, "stays", "of another rule")
			next := once(t, f)
			if next > lag {
				t.Errorf("the next round is in %s", next)
			}
			time.Sleep(next)
			if next = once(t, f); next < time.Minute {
				t.Errorf("the next round is in %s", next)
			}
			if s.exists(t, "late") {
				t.Errorf("hand-over: %v: the late object exists", handOver)
			}
			record := &corev1.ConfigMap{}
			if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "ephor", Name: origin.RulesName}, record); err != nil {
				t.Fatal(err)
			}
			if text := record.Data["rules"]; strings.Contains(text, `"p"`) || !strings.Contains(text, `"stays"`) || !s.exists(t, "of another rule") {
				t.Errorf("the record is %s", text)
			}
		})
	}
}

// A check whose objects cannot be deleted is done again, and does not keep other checks from being done.
func TestLateObjectsThatCannotBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := true
		s := newSite(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if refused && o.GetName() == "refused" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, o.GetName(), errors.New("no right"))
			}
			return c.Delete(ctx, o, opts...)
		}})
		s.add("p")
		s.add("q")
		f := s.follower()
		once(t, f)
		s.remove("p")
		s.remove("q")
		once(t, f)
		s.make(t, "p", "refused")
		s.make(t, "q", "late")
		time.Sleep(lag)
		if _, err := f.Once(t.Context()); err == nil || s.exists(t, "late") {
			t.Errorf("the object of the other rule exists: %v, %v", s.exists(t, "late"), err)
		}
		refused = false
		if once(t, f); s.exists(t, "refused") {
			t.Error("the check is not done again")
		}
	})
}

// The objects of a rule that exists only during the round for another rule are deleted as well.
func TestRuleThatExistsDuringARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var during func()
		s := newSite(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if f := during; f != nil {
				during = nil
				f()
			}
			return c.Delete(ctx, o, opts...)
		}})
		f := s.follower()
		change := func(c func(string), name string) {
			c(name)
			f.See(s.catalog.Snapshot())
		}
		f.See(s.catalog.Snapshot())
		change(s.add, "p")
		change(s.add, "back")
		once(t, f)
		s.make(t, "p", "made")
		during = func() {
			change(s.add, "short")
			s.make(t, "short", "short")
			change(s.remove, "short")
			change(s.remove, "back")
			change(s.add, "back")
			change(s.add, "new")
			s.make(t, "new", "of a new rule")
		}
		s.make(t, "back", "of a rule that is back")
		change(s.remove, "p")
		once(t, f)
		s.make(t, "short", "late")
		for range 3 {
			time.Sleep(once(t, f))
		}
		for name, want := range map[string]bool{"made": false, "short": false, "late": false, "of a rule that is back": true, "of a new rule": true} {
			if got := s.exists(t, name); got != want {
				t.Errorf("%s exists: %v", name, got)
			}
			if _, recorded := s.record.Object(name); recorded != want {
				t.Errorf("%s is recorded: %v", name, recorded)
			}
		}
	})
}
