package catalog

import (
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/policy"
)

// exception returns an exception for rules of policies, written as policy=rule,rule.
func exception(key string, generation int64, rules ...string) *policy.Exception {
	e := &policy.Exception{APIVersion: "kyverno.io/v2", Generation: generation, Kinds: []string{"ClusterPolicy", "Policy"}}
	e.Name = key
	if ns, name, ok := strings.Cut(key, "/"); ok {
		e.Namespace, e.Name = ns, name
	}
	for _, r := range rules {
		p, names, _ := strings.Cut(r, "=")
		e.Rules = append(e.Rules, policy.ExceptionRules{Policy: p, Names: strings.Split(names, ",")})
	}
	return e
}

func withRules(p *policy.Program, names ...string) *policy.Program {
	r := *p.Rules[0]
	p.Rules = nil
	for i, n := range names {
		rule := r
		rule.Name, rule.Index = n, i
		p.Rules = append(p.Rules, &rule)
	}
	return p
}

// exempt lists the exceptions of each rule, as policy/rule: exceptions.
func exempt(programs []*policy.Program) string {
	var out []string
	for _, p := range programs {
		for _, r := range p.Rules {
			if len(r.Exceptions) == 0 {
				continue
			}
			var keys []string
			for _, e := range r.Exceptions {
				keys = append(keys, e.Key())
			}
			out = append(out, p.Key()+"."+r.Name+": "+strings.Join(keys, " "))
		}
	}
	return strings.Join(out, "; ")
}

// Exceptions name the policy by its exact key, rules by wildcard, and generated rules by their own names.
func TestJoin(t *testing.T) {
	hosts := withRules(program("hosts", 1, "Pod"), "a", "autogen-a", "b")
	local := withRules(program("ns/hosts", 1, "Pod"), "a")
	other := program("other", 1, "Pod")
	celPolicy := program("hosts", 1, "Pod")
	celPolicy.Kind = "ValidatingPolicy"
	programs := []*policy.Program{hosts, local, other, celPolicy}
	for _, c := range []struct {
		name       string
		exceptions []*policy.Exception
		want       string
	}{
		{"none", nil, ""},
		{"the rule that is named", []*policy.Exception{exception("n/x", 1, "hosts=a")}, "hosts.a: n/x"},
		{"wildcards in rules", []*policy.Exception{exception("n/x", 1, "hosts=*a")}, "hosts.a: n/x; hosts.autogen-a: n/x"},
		{"no wildcards in policies", []*policy.Exception{exception("n/x", 1, "h*=*")}, ""},
		{"a Policy by its namespace", []*policy.Exception{exception("n/x", 1, "ns/hosts=*")}, "ns/hosts.a: n/x"},
		{"several policies", []*policy.Exception{exception("n/x", 1, "hosts=b", "ns/hosts=a", "gone=*")}, "hosts.b: n/x; ns/hosts.a: n/x"},
		{"several entries for one policy", []*policy.Exception{exception("n/x", 1, "hosts=b", "hosts=b,a")}, "hosts.a: n/x; hosts.b: n/x"},
		{"several exceptions", []*policy.Exception{exception("n/y", 1, "hosts=b"), exception("x", 1, "hosts=?")}, "hosts.a: x; hosts.b: n/y x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			joined := Join(programs, c.exceptions)
			if got := exempt(joined); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if exempt(programs) != "" {
				t.Error("the programs given were changed")
			}
			if joined[2] != other || joined[3] != celPolicy {
				t.Error("a program that no exception concerns was copied")
			}
		})
	}
}

// A rule must load the data that the conditions of its exceptions read.
func TestJoinMergesNeeds(t *testing.T) {
	e := exception("n/x", 1, "hosts=*")
	e.Needs.Roles = true
	p := program("hosts", 1, "Pod")
	got := Join([]*policy.Program{p}, []*policy.Exception{e})[0].Rules[0]
	if !got.Needs.Roles || p.Rules[0].Needs.Roles || got.OwnNeeds == nil || got.OwnNeeds.Roles {
		t.Errorf("needs %+v, of its own %+v", got.Needs, got.OwnNeeds)
	}
}

// Exceptions and policies may arrive in any order; the last version of each counts.
func TestCatalogExceptions(t *testing.T) {
	c := New()
	expect := func(what, want string) {
		t.Helper()
		if got := exempt(c.Snapshot().Programs()); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		var selected []*policy.Program
		for _, s := range c.Snapshot().For(pod(policy.FromAdmission), Route{Stages: policy.StageValidate}) {
			p := *s.Program
			p.Rules = s.Rules
			selected = append(selected, &p)
		}
		if got := exempt(selected); got != want {
			t.Errorf("%s, in the index: %q, want %q", what, got, want)
		}
	}
	c.SetException(exception("n/z", 1, "a=*"))
	expect("exception without its policy", "")
	before := c.Snapshot().Hash()
	c.Set(program("a", 1, "Pod"), program("b", 1, "Pod"))
	expect("the policy comes", "a.r: n/z")
	with := c.Snapshot().Hash()
	c.SetException(exception("n/y", 1, "a=r", "b=r"))
	expect("a second exception, in the order of keys", "a.r: n/y n/z; b.r: n/y")
	c.SetException(exception("n/y", 2, "b=r"))
	expect("an exception changes", "a.r: n/z; b.r: n/y")
	c.Set(program("a", 2, "Pod"))
	expect("a policy changes", "a.r: n/z; b.r: n/y")
	c.DeleteException(exception("n/z", 1).ID())
	c.DeleteException(exception("n/nope", 1).ID())
	expect("an exception goes", "b.r: n/y")
	c.Delete(ID{Kind: "ClusterPolicy", Name: "b"})
	expect("its policy goes", "")
	c.Set(program("b", 1, "Pod"))
	expect("its policy comes again", "b.r: n/y")
	c.DeleteException(exception("n/y", 1).ID())
	expect("none left", "")
	if before == with {
		t.Error("the hash does not tell sets apart")
	}
	static := NewStatic(c.Snapshot().Programs())
	if c.Snapshot().Hash() != static.Hash() {
		t.Error("the hash does not return to what it was without exceptions")
	}
	if e := c.Snapshot().Exceptions(); len(e) != 0 {
		t.Errorf("exceptions left: %v", e)
	}
}

// Exceptions of two groups may have the same name in the same namespace. Each applies only to policies of its own kinds.
func TestExceptionsOfTwoGroups(t *testing.T) {
	c := New()
	written := program("a", 1, "Pod")
	written.Kind = "ValidatingPolicy"
	c.Set(program("a", 1, "Pod"), written)
	classic, other := exception("n/x", 1, "a=*"), exception("n/x", 1, "a=*")
	other.APIVersion, other.Kinds = "policies.kyverno.io/v1", []string{"ValidatingPolicy"}
	of := func(kind string) (out []string) {
		for _, e := range c.Snapshot().Get(ID{Kind: kind, Name: "a"}).Rules[0].Exceptions {
			out = append(out, e.APIVersion)
		}
		return out
	}
	expect := func(what, onClassic, onOther string) {
		t.Helper()
		if a, b := strings.Join(of("ClusterPolicy"), " "), strings.Join(of("ValidatingPolicy"), " "); a != onClassic || b != onOther {
			t.Errorf("%s: the classic policy has %q, the other %q", what, a, b)
		}
	}
	c.SetException(other)
	expect("one", "", "policies.kyverno.io/v1")
	c.SetException(classic)
	expect("both", "kyverno.io/v2", "policies.kyverno.io/v1")
	later := *other
	later.APIVersion = "policies.kyverno.io/v1beta1"
	c.SetException(&later)
	expect("another version of the other", "kyverno.io/v2", "policies.kyverno.io/v1beta1")
	c.DeleteException(other.ID())
	expect("the other goes", "kyverno.io/v2", "")

	named := *other
	named.Rules = []policy.ExceptionRules{{Kind: "ClusterPolicy", Policy: "a", AnyNamespace: true, Names: []string{"*"}}}
	c.SetException(&named)
	expect("one that names a kind of another group", "kyverno.io/v2", "")
}

// An exception that names a policy without its namespace also applies to existing policies, and stops when it is deleted.
func TestExceptionOfNamespacedPolicy(t *testing.T) {
	c := New()
	c.Set(program("ns/a", 1, "Pod"), program("ns/b", 1, "Pod"))
	e := exception("n/x", 1, "a=*")
	e.Rules[0].AnyNamespace = true
	c.SetException(e)
	if got := exempt(c.Snapshot().Programs()); got != "ns/a.r: n/x" {
		t.Errorf("an exception comes: %q", got)
	}
	c.DeleteException(e.ID())
	if got := exempt(c.Snapshot().Programs()); got != "" {
		t.Errorf("it goes: %q", got)
	}
}

// A new exception changes the hash of the rules' set and notifies subscribers; an unchanged one does not.
func TestExceptionChangesWake(t *testing.T) {
	c := New()
	c.Set(program("a", 1, "Pod"))
	changed, cancel := c.Subscribe()
	defer cancel()
	<-changed
	e := exception("n/x", 1, "a=*")
	hash := c.Snapshot().Hash()
	c.SetException(e)
	select {
	case <-changed:
	default:
		t.Error("nobody was woken")
	}
	if c.Snapshot().Hash() == hash {
		t.Error("the hash stayed the same")
	}
	version := c.Snapshot().Version()
	c.SetException(e)
	if c.Snapshot().Version() != version {
		t.Error("the same exception again made a new snapshot")
	}
	if !slices.Contains(c.Snapshot().Exceptions(), e) {
		t.Error("the exception is not listed")
	}
}
