package catalog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/index"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
)

// program returns a policy with one validate rule for the kinds.
func program(name string, generation int64, kinds ...string) *policy.Program {
	p := &policy.Program{
		APIVersion: "kyverno.io/v1", Kind: "ClusterPolicy", Name: name, UID: "uid-" + name, Generation: generation,
		Settings: policy.Settings{Admission: true, Background: true},
	}
	if ns, n, ok := strings.Cut(name, "/"); ok {
		p.Kind, p.Namespace, p.Name = "Policy", ns, n
	}
	r := &policy.Rule{Name: "r", Stage: policy.StageValidate}
	for _, k := range kinds {
		t, err := match.ParseKind(k)
		if err != nil {
			panic(err)
		}
		r.Targets = append(r.Targets, t)
	}
	p.Rules = []*policy.Rule{r}
	return p
}

func pod(origin policy.RequestOrigin) *policy.Request {
	return &policy.Request{Review: policy.Review{Origin: origin, Operation: policy.Create, Namespace: "ns", Name: "x",
		GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}}}
}

func names(s []policy.Selection) string {
	var out []string
	for _, x := range s {
		out = append(out, x.Program.Key())
	}
	return strings.Join(out, " ")
}

func TestSetReplaceDelete(t *testing.T) {
	c := New()
	validate := Route{Stages: policy.StageValidate}
	ask := func() string { return names(c.Snapshot().For(pod(policy.FromAdmission), validate)) }
	expect := func(what, want string) {
		t.Helper()
		if got := ask(); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	expect("empty", "")
	c.Set(program("b", 1, "Pod"), program("a", 1, "Pod"), program("ns/a", 1, "Pod"), program("other/a", 1, "Pod"), program("s", 1, "Service"))
	expect("cluster policies come first, each by name", "a b ns/a")
	before := c.Snapshot()
	c.Set(program("b", 2, "Service"))
	expect("replaced", "a ns/a")
	if got := names(before.For(pod(policy.FromAdmission), validate)); got != "a b ns/a" {
		t.Errorf("the snapshot taken before a change answers %q", got)
	}
	if p := c.Snapshot().Get(ID{Kind: "ClusterPolicy", Name: "b"}); p == nil || p.Generation != 2 {
		t.Errorf("Get answers %+v", p)
	}
	c.Delete(ID{Kind: "ClusterPolicy", Name: "a"}, ID{Kind: "ClusterPolicy", Name: "not there"})
	expect("deleted", "ns/a")
	c.Delete(IDOf(program("ns/a", 1, "Pod")))
	expect("the last one deleted", "")
	c.Apply([]*policy.Program{program("x", 1, "Pod"), program("x", 2, "Pod"), program("z", 1, "Pod")}, []ID{{Kind: "ClusterPolicy", Name: "z"}})
	expect("several at once", "x")
	if p := c.Snapshot().Get(ID{Kind: "ClusterPolicy", Name: "x"}); p.Generation != 2 {
		t.Error("of several with one ID the last counts")
	}
	if n := len(c.Snapshot().Programs()); n != 4 {
		t.Errorf("%d programs are left", n)
	}
}

// A request meets cluster policies before namespaced ones, each by name, whatever the order in which they came, and although the namespace is before
// the name in the key.
func TestOrderOfPolicies(t *testing.T) {
	const want = "a m z ns/a ns/b"
	all := strings.Fields(want)
	for i := range all {
		c := New()
		for _, name := range slices.Concat(all[i:], all[:i]) {
			c.Set(program(name, 1, "Pod"))
		}
		if got := names(c.Snapshot().For(pod(policy.FromAdmission), Route{Stages: policy.StageValidate})); got != want {
			t.Errorf("in the order from %s: %q, want %q", all[i], got, want)
		}
	}
}

func TestVersionAndHash(t *testing.T) {
	a, b := program("a", 1, "Pod"), program("b", 1, "Pod")
	c, d := New(), New()
	c.Set(a)
	c.Set(b)
	d.Set(program("b", 1, "Pod"), program("a", 1, "Pod"))
	if c.Snapshot().Hash() != d.Snapshot().Hash() {
		t.Error("the hash depends on the order in which policies come")
	}
	if c.Snapshot().Hash() != NewStatic([]*policy.Program{b, a}).Hash() {
		t.Error("a static snapshot of the same policies has another hash")
	}
	seen := map[Hash]string{c.Snapshot().Hash(): "a b", (&Snapshot{}).Hash(): "nothing"}
	fresh := func(what string) {
		t.Helper()
		if old, again := seen[c.Snapshot().Hash()]; again {
			t.Errorf("%s has the hash of %s", what, old)
		}
		seen[c.Snapshot().Hash()] = what
	}
	c.Set(a.AuditFirst())
	fresh("a that audits first")
	c.Set(a)
	version := c.Snapshot().Version()
	c.Set(a)
	c.Delete(ID{Kind: "ClusterPolicy", Name: "nobody"})
	if c.Snapshot().Version() != version {
		t.Error("a change that changes nothing made a new snapshot")
	}
	c.Set(program("a", 2, "Pod"))
	fresh("another generation")
	annotated := program("a", 2, "Pod")
	annotated.Annotations = map[string]string{"policies.kyverno.io/scored": "false"}
	c.Set(annotated)
	fresh("another annotation")
	labelled := program("a", 2, "Pod")
	labelled.Labels = annotated.Annotations
	c.Set(labelled)
	fresh("the same text as a label")
	for _, e := range []*policy.Exception{
		{Name: "x"}, {Name: "x", Priority: 1}, {Name: "x", Workload: true}, {Name: "x", Audit: true}, {Name: "x", EndsSoon: true}, {Name: "x", Reason: "r"}, {Name: "x", Owner: "r"}, {Name: "x", Expires: time.Unix(1, 0)},
	} {
		e.Kinds, e.Rules = []string{labelled.Kind}, []policy.ExceptionRules{{Policy: "a", Names: []string{"*"}}}
		c.SetException(e)
		fresh(fmt.Sprintf("an exception with labels or annotations: %+v", *e))
	}
	c.DeleteException(policy.ExceptionID{Name: "x"})
	c.Delete(ID{Kind: "ClusterPolicy", Name: "a"})
	fresh("b alone")
	c.Set(a)
	if got := seen[c.Snapshot().Hash()]; got != "a b" {
		t.Errorf("back to a and b, but the hash is that of %q", got)
	}
	if c.Snapshot().Version() <= version {
		t.Error("the version does not rise")
	}
	if h := c.Snapshot().Hash().String(); len(h) != 32 {
		t.Errorf("hash %q", h)
	}
}

// A route selects policies by their failure policy and their own webhook; requests are not answered by policies without admission, nor scans by those without background.
func TestRoutes(t *testing.T) {
	ignore, own, scanOnly, admissionOnly := program("ignore", 1, "Pod"), program("own", 1, "Pod"), program("scan", 1, "Pod"), program("admission", 1, "Pod")
	ignore.Settings.FailurePolicy, ignore.Family = policy.Ignore, "f"
	own.Settings.MatchConditions = []policy.MatchCondition{{Name: "c", Expression: "true"}}
	scanOnly.Settings.Admission = false
	admissionOnly.Settings.Background = false
	mutate := program("mutate", 1, "Pod")
	mutate.Rules[0].Stage = policy.StageMutate
	ownInNamespace := program("ns/own", 1, "Pod")
	ownInNamespace.Settings.MatchConditions = own.Settings.MatchConditions
	c := New()
	c.Set(ignore, own, scanOnly, admissionOnly, mutate, ownInNamespace)
	s := c.Snapshot()
	fail, ign := policy.Fail, policy.Ignore
	for _, x := range []struct {
		name   string
		origin policy.RequestOrigin
		route  Route
		want   string
	}{
		{"all shared", policy.FromAdmission, Route{Stages: policy.StageValidate}, "admission ignore"},
		{"fail", policy.FromAdmission, Route{Stages: policy.StageValidate, FailurePolicy: &fail}, "admission"},
		{"ignore", policy.FromAdmission, Route{Stages: policy.StageValidate, FailurePolicy: &ign}, "ignore"},
		{"mutate", policy.FromAdmission, Route{Stages: policy.StageMutate | policy.StageVerifyImages}, "mutate"},
		{"own webhook", policy.FromAdmission, Route{Stages: policy.StageValidate, FailurePolicy: &fail, Policies: IDs{{Kind: "ClusterPolicy", Name: "own"}: true}}, "own"},
		{"own webhook of a Policy", policy.FromAdmission, Route{Stages: policy.StageValidate, Policies: IDs{{Kind: "Policy", Namespace: "ns", Name: "own"}: true}}, "ns/own"},
		{"own webhook, other failure policy", policy.FromAdmission, Route{Stages: policy.StageValidate, FailurePolicy: &ign, Policies: IDs{{Kind: "ClusterPolicy", Name: "own"}: true}}, ""},
		{"own webhook of nobody", policy.FromAdmission, Route{Stages: policy.StageValidate, Policies: IDs{{Kind: "ClusterPolicy", Name: "nobody"}: true}}, ""},
		{"names without a namespace", policy.FromAdmission, Route{Stages: policy.StageValidate, Policies: IDs{{Kind: "Policy", Namespace: AnyNamespace, Name: "own"}: true}}, "ns/own"},
		{"several names", policy.FromAdmission, Route{Stages: policy.StageValidate, Policies: IDs{{Kind: "ClusterPolicy", Name: "own"}: true, {Kind: "ClusterPolicy", Name: "ignore"}: true}}, "ignore own"},
		{"no name", policy.FromAdmission, Route{Stages: policy.StageValidate, Policies: IDs{}}, ""},
		{"a family", policy.FromAdmission, Route{Stages: policy.StageValidate, Family: "f"}, "ignore"},
		{"another family", policy.FromAdmission, Route{Stages: policy.StageValidate, Family: "g"}, ""},
		{"a name in another family", policy.FromAdmission, Route{Stages: policy.StageValidate, Family: "f", Policies: IDs{{Kind: "ClusterPolicy", Name: "own"}: true}}, ""},
		{"scan", policy.FromScan, Route{Stages: policy.StageValidate}, "ignore own scan ns/own"},
		{"command line", policy.FromCLI, Route{Stages: policy.StageValidate}, "admission ignore own scan ns/own"},
	} {
		if got := names(s.For(pod(x.origin), x.route)); got != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}

// The command line applies policies in the order in which it loaded them.
func TestStaticKeepsOrder(t *testing.T) {
	s := NewStatic([]*policy.Program{program("ns/z", 1, "Pod"), program("b", 1, "Pod"), program("a", 1, "Pod")})
	if got := names(s.For(pod(policy.FromCLI), Route{Stages: policy.StageValidate})); got != "ns/z b a" {
		t.Errorf("%q", got)
	}
	if s.Version() != 0 {
		t.Error("a static snapshot has no history")
	}
}

func TestSubscribe(t *testing.T) {
	c := New()
	changed, cancel := c.Subscribe()
	pending := func() bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	if !pending() {
		t.Error("no wake-up for the present state")
	}
	p := program("a", 1, "Pod")
	c.Set(p)
	c.Set(program("b", 1, "Pod"))
	if !pending() || pending() {
		t.Error("two changes that were not looked at are not one wake-up")
	}
	c.Set(p)
	if pending() {
		t.Error("woken though nothing changed")
	}
	cancel()
	c.Set(program("c", 1, "Pod"))
	if pending() {
		t.Error("woken after cancel")
	}
}

// TestConcurrent tests that readers see a consistent snapshot while it changes. Run it with -race.
func TestConcurrent(t *testing.T) {
	c := New()
	c.Set(program("always", 1, "Pod"), program("wild", 1, "*"))
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 3))
			for i := range 300 {
				if worker < 2 {
					name := fmt.Sprint("p", rnd.IntN(10))
					if rnd.IntN(3) == 0 {
						c.Delete(ID{Kind: "ClusterPolicy", Name: name})
					} else {
						c.Set(program(name, int64(i), []string{"Pod", "Service", "*"}[rnd.IntN(3)]))
					}
					continue
				}
				s := c.Snapshot()
				selected := s.For(pod(policy.FromAdmission), Route{Stages: policy.StageValidate})
				found := 0
				for j, sel := range selected {
					if j > 0 && index.Compare(selected[j-1].Program, sel.Program) >= 0 {
						t.Errorf("out of order: %s", names(selected))
					}
					if s.Get(IDOf(sel.Program)) != sel.Program {
						t.Errorf("%s is answered but not in the snapshot", sel.Program.Key())
					}
					if n := sel.Program.Name; n == "always" || n == "wild" {
						found++
					}
				}
				if found != 2 {
					t.Errorf("answered %s", names(selected))
				}
				changed, cancel := c.Subscribe()
				<-changed
				cancel()
			}
		})
	}
	wg.Wait()
}

// BenchmarkFor measures the selection for one request, with n policies of which one matches.
func BenchmarkFor(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			programs := []*policy.Program{program("match", 1, "Pod")}
			for i := 1; i < n; i++ {
				programs = append(programs, program(fmt.Sprint("p", i), 1, fmt.Sprint("Kind", i%40)))
			}
			c := New()
			c.Set(programs...)
			r, fail := pod(policy.FromAdmission), policy.Fail
			route := Route{Stages: policy.StageValidate, FailurePolicy: &fail}
			b.ReportAllocs()
			for b.Loop() {
				if len(c.Snapshot().For(r, route)) != 1 {
					b.Fatal("not one")
				}
			}
		})
	}
}

// BenchmarkSet measures one policy change among n.
func BenchmarkSet(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := New()
			var programs []*policy.Program
			for i := range n {
				programs = append(programs, program(fmt.Sprint("p", i), 1, fmt.Sprint("Kind", i%40)))
			}
			c.Set(programs...)
			changing := [2]*policy.Program{program("p1", 1, "Kind1"), program("p1", 2, "Kind1")}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				c.Set(changing[i%2])
				i++
			}
		})
	}
}
