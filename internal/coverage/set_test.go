package coverage

import (
	"math/rand/v2"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"ephor.invalid/ephor/internal/policy"
)

// The served resources of the tests, with a namespace for those that are namespaced.
var served = []struct {
	group, version, resource, sub, namespace string
}{
	{"", "v1", "pods", "", "n"}, {"", "v1", "pods", "exec", "n"}, {"", "v1", "pods", "resize", "n"}, {"", "v1", "pods", "ephemeralcontainers", "n"},
	{"", "v1", "nodes", "", ""}, {"", "v1", "nodes", "status", ""}, {"apps", "v1", "deployments", "", "n"}, {"apps", "v1", "deployments", "scale", "n"},
	{"apps", "v1beta1", "deployments", "", "n"}, {"batch", "v1", "jobs", "status", "n"},
}

// asked reports whether the API server's own matcher finds a rule for a request.
func asked(list []admissionv1.RuleWithOperations, op policy.Operation, i int) bool {
	r := served[i]
	attr := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, r.namespace, "x", schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.resource},
		r.sub, admission.Operation(op), &metav1.CreateOptions{}, false, nil)
	for _, rule := range list {
		if (&rules.Matcher{Rule: rule, Attr: attr}).Matches() {
			return true
		}
	}
	return false
}

func one[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func randomResource(rng *rand.Rand) Resource {
	return Resource{
		Group: one(rng, "", "apps", "batch", "*"), Version: one(rng, "v1", "v1", "v1beta1", "*"), Name: one(rng, "pods", "nodes", "deployments", "jobs", "*"),
		Subresource: one(rng, "", "", "exec", "status", "*"), Scope: one(rng, admissionv1.AllScopes, admissionv1.NamespacedScope, admissionv1.ClusterScope),
		Authored: true,
	}
}

func randomSet(rng *rand.Rand) Set {
	out := Set{}
	for range rng.IntN(5) {
		ops := Operations{}
		for range 1 + rng.IntN(3) {
			ops[one(rng, policy.Connect, policy.Create, policy.Delete, policy.Update)] = true
		}
		out.Add(ops, randomResource(rng))
	}
	return out
}

// each calls f with every request for a served resource.
func each(f func(op policy.Operation, i int)) {
	for op := range All() {
		for i := range served {
			f(op, i)
		}
	}
}

// The rules of a union match what the rules of one of the sets match, and rules that are read again match no less.
func TestUnionMatchesLikeTheAPIServer(t *testing.T) {
	matched := 0
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a, b := randomSet(rng), randomSet(rng)
		ra, rb, both := Union(a).Rules(), Union(b).Rules(), Union(a, b).Rules()
		again := Set{}
		again.AddRules(both)
		each(func(op policy.Operation, i int) {
			want := asked(ra, op, i) || asked(rb, op, i)
			if want {
				matched++
			}
			if got := asked(both, op, i); got != want {
				t.Fatalf("seed %d: %s %v: %v, and %v in one of the sets\n%v\n%v\n%v", seed, op, served[i], got, want, a, b, both)
			}
			if want && !asked(again.Rules(), op, i) { // it may match debug containers in addition
				t.Fatalf("seed %d: %s %v is not matched after reading the rules again", seed, op, served[i])
			}
		})
	}
	if matched < 1000 {
		t.Errorf("%d requests matched: the sets are too small to show anything", matched)
	}
}

// Two sets meet if a request matches rules of both.
func TestMeets(t *testing.T) {
	apart := 0
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		ra, rb := randomSet(rng).Rules(), randomSet(rng).Rules()
		a, b := Set{}, Set{}
		a.AddRules(ra)
		b.AddRules(rb)
		meet := a.Meets(b)
		if !meet {
			apart++
		}
		if meet != b.Meets(a) {
			t.Errorf("seed %d: one meets the other, which does not meet it\n%v\n%v", seed, a, b)
		}
		each(func(op policy.Operation, i int) {
			if !meet && asked(ra, op, i) && asked(rb, op, i) {
				t.Fatalf("seed %d: %s %v matches both\n%v\n%v", seed, op, served[i], a, b)
			}
		})
	}
	if apart < 100 {
		t.Errorf("%d pairs of sets do not meet: the test shows too little", apart)
	}
}

// After Remove no rule matches a request for what was removed by the same selector, and all other selectors match as before.
func TestRemove(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s, gone, op := randomSet(rng), randomResource(rng), one(rng, policy.Create, policy.Delete)
		left := Union(s)
		left.Remove(OperationsOf(op), gone)
		for r, ops := range s {
			for o := range ops {
				if want := !(o == op && gone.Covers(r)); left[r][o] != want {
					t.Fatalf("seed %d: %s of %v after Remove(%v): %v", seed, o, r, gone, left[r][o])
				}
			}
		}
	}
}

// A resource that covers another matches every request that the other matches.
func TestCovers(t *testing.T) {
	covering := 0
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		wide, narrow := randomResource(rng), randomResource(rng)
		if !wide.Covers(narrow) {
			continue
		}
		covering++
		w, n := Set{}, Set{}
		w.Add(All(), wide)
		n.Add(All(), narrow)
		each(func(op policy.Operation, i int) {
			if asked(n.Rules(), op, i) && !asked(w.Rules(), op, i) {
				t.Fatalf("%v covers %v, but does not match %v", wide, narrow, served[i])
			}
		})
	}
	if covering < 200 {
		t.Errorf("%d pairs cover each other", covering)
	}
}

// A set that names Pods by their kind covers debug containers, a set that an author wrote by resource covers what he wrote.
func TestDebugContainers(t *testing.T) {
	for _, authored := range []bool{false, true} {
		s := Set{}
		s.Add(All(), Resource{Version: "v1", Name: "pods", Scope: admissionv1.NamespacedScope, Authored: authored})
		resources := s.Rules()[0].Resources
		if got := strings.Contains(strings.Join(resources, " "), "pods/ephemeralcontainers"); got == authored {
			t.Errorf("authored %v: %v", authored, resources)
		}
	}
}
