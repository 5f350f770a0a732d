package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// gen generates random policies and requests from a small vocabulary, so that they often match.
type gen struct{ *rand.Rand }

func pick[T any](g gen, list ...T) T { return list[g.IntN(len(list))] }

func (g gen) some(chance int, words ...string) []string {
	if g.IntN(100) >= chance {
		return nil
	}
	out := make([]string, 1+g.IntN(2))
	for i := range out {
		out[i] = pick(g, words...)
	}
	return out
}

func (g gen) labels() map[string]string {
	m := map[string]string{}
	for range 1 + g.IntN(2) {
		m[pick(g, "app", "tier", "a*", "*")] = pick(g, "x", "y", "?", "*")
	}
	return m
}

func (g gen) filter() (f kyvernov1.ResourceFilter) {
	d := &f.ResourceDescription
	d.Kinds = g.some(90, "Pod", "Pod", "v1/Pod", "apps/v1/Deployment", "Deployment", "Namespace", "Node", "*", "*/*", "D*", "Pod/exec",
		"Pod/*", "Deployment/scale", "*/scale", "a/b", "apps/Deployment/scale")
	d.Names = g.some(20, "n1", "n2", "n*", "*", "?1")
	if g.IntN(10) == 0 {
		d.Name = pick(g, "n1", "n*")
	}
	d.Namespaces = g.some(20, "ns1", "ns2", "ns*", "*", "?s1")
	if g.IntN(4) == 0 {
		d.Selector = &metav1.LabelSelector{MatchLabels: g.labels()}
		if g.IntN(10) == 0 {
			d.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: pick(g, metav1.LabelSelectorOpExists, "Bad")}}
		}
	}
	if g.IntN(6) == 0 {
		d.Annotations = g.labels()
	}
	for _, o := range g.some(30, "CREATE", "UPDATE", "DELETE", "CONNECT") {
		d.Operations = append(d.Operations, kyvernov1.AdmissionOperation(o))
	}
	if g.IntN(8) == 0 {
		f.ClusterRoles = []string{"admin"}
	}
	return f
}

func (g gen) block() (m kyvernov1.MatchResources) {
	switch g.IntN(5) {
	case 0:
		f := g.filter()
		m.UserInfo, m.ResourceDescription = f.UserInfo, f.ResourceDescription
	case 1, 2:
		for range 1 + g.IntN(3) {
			m.Any = append(m.Any, g.filter())
		}
	default:
		for range 1 + g.IntN(3) {
			m.All = append(m.All, g.filter())
		}
	}
	return m
}

var genStages = []policy.Stage{policy.StageMutate, policy.StageValidate, policy.StageVerifyImages | policy.StageValidate, policy.StageGenerate}

func (g gen) program(i int) *policy.Program {
	p := &policy.Program{Kind: "ClusterPolicy", Name: fmt.Sprintf("p%03d", g.IntN(1000)), UID: fmt.Sprint(i), Family: pick(g, "", "one")}
	if g.IntN(4) == 0 {
		p.Kind, p.Namespace = "Policy", pick(g, "ns1", "ns2")
	}
	p.Settings = policy.Settings{Admission: g.IntN(10) > 0, Background: g.IntN(4) > 0, FailurePolicy: pick(g, policy.Fail, policy.Ignore)}
	if g.IntN(8) == 0 {
		p.Settings.MatchConditions = []policy.MatchCondition{{Name: "c", Expression: "true"}}
	}
	for n := range 1 + g.IntN(3) {
		var ex *kyvernov1.MatchResources
		if g.IntN(3) == 0 {
			b := g.block()
			ex = &b
		}
		m, _ := match.Compile(g.block(), ex, p.Namespace, "spec.rules[0]")
		p.Rules = append(p.Rules, &policy.Rule{Name: fmt.Sprint("r", n), Index: n, Stage: pick(g, genStages...), Matching: policy.Matching{Match: m.Match, Targets: m.Targets(), Excludes: m.Excludes()}})
	}
	return p
}

func (g gen) request() *policy.Request {
	r := &policy.Request{Review: policy.Review{
		Origin:    pick(g, policy.FromAdmission, policy.FromScan, policy.FromCLI),
		Operation: pick(g, policy.Create, policy.Update, policy.Delete, policy.Connect, ""),
		GVK: pick(g, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
			schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, schema.GroupVersionKind{Version: "v1", Kind: "Node"},
			schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, schema.GroupVersionKind{Group: "x.io", Version: "v2", Kind: "Dingo"}),
		Subresource: pick(g, "", "", "", "exec", "scale", "ephemeralcontainers"),
	}}
	if g.IntN(2) == 0 {
		r.User = &policy.User{Username: "u"}
	}
	meta := map[string]any{}
	if g.IntN(5) > 0 {
		r.Name = pick(g, "n1", "n2", "x")
		meta["name"] = r.Name
	} else {
		meta["generateName"] = "n"
	}
	switch r.GVK.Kind {
	case "Node":
	case "Namespace":
		r.Name = pick(g, "ns1", "ns2", "ns3")
		r.Namespace = pick(g, "", r.Name)
	default:
		r.Namespace = pick(g, "ns1", "ns2", "ns3")
	}
	labels := map[string]any{}
	for range g.IntN(3) {
		labels[pick(g, "app", "tier", "az")] = pick[any](g, "x", "y", "zz", int64(1))
	}
	meta["labels"], meta["annotations"] = labels, labels
	switch g.IntN(8) {
	case 0: // no object
	case 1:
		r.Object = value.FromJSON(`{"broken`)
	case 2:
		r.OldObject = value.Of(map[string]any{"metadata": meta})
	default:
		r.Object = value.Of(map[string]any{"metadata": meta})
	}
	return r
}

// accepted returns, by brute force, the rules that a query must return.
func accepted(t *testing.T, programs []*policy.Program, r *policy.Request, q Query) (keys []string) {
	for _, p := range programs {
		s := p.Settings
		if q.Family != "" && p.Family != q.Family || r.Origin == policy.FromAdmission && !s.Admission || r.Origin == policy.FromScan && !s.Background ||
			q.FailurePolicy == OnlyFail && s.FailurePolicy != policy.Fail ||
			q.FailurePolicy == OnlyIgnore && s.FailurePolicy != policy.Ignore ||
			q.SharedOnly && p.OwnWebhook(q.FixedWebhooks) {
			continue
		}
		for _, rule := range p.Rules {
			if !q.Stages.Has(rule.Stage) {
				continue
			}
			if ok, err := rule.Match(t.Context(), r); ok || (err != nil && !errors.Is(err, match.ErrMixed)) {
				keys = append(keys, key(p, rule))
			}
		}
	}
	return keys
}

func key(p *policy.Program, r *policy.Rule) string { return p.Key() + "#" + p.UID + "/" + r.Name }

// checkSelections checks the order of an answer and returns its rules.
func checkSelections(t *testing.T, order func(a, b *policy.Program) int, selections []policy.Selection, q Query) map[string]bool {
	out := map[string]bool{}
	for i, s := range selections {
		if i > 0 && order(selections[i-1].Program, s.Program) >= 0 {
			t.Fatalf("Programs %s and %s are out of order", selections[i-1].Program.Key(), s.Program.Key())
		}
		if len(s.Rules) == 0 {
			t.Fatalf("Program %s without rules", s.Program.Key())
		}
		for j, r := range s.Rules {
			if j > 0 && s.Rules[j-1].Index >= r.Index {
				t.Fatalf("rules of %s are out of order", s.Program.Key())
			}
			if !q.Stages.Has(r.Stage) {
				t.Fatalf("rule of another stage")
			}
			out[key(s.Program, r)] = true
		}
	}
	return out
}

func (g gen) query() Query {
	return Query{
		Family:        pick(g, "", "", "one", "other"),
		Stages:        pick(g, policy.StageValidate, policy.StageMutate, policy.StageMutate|policy.StageVerifyImages, policy.StageValidate|policy.StageGenerate),
		FailurePolicy: pick(g, AnyFailurePolicy, AnyFailurePolicy, OnlyFail, OnlyIgnore),
		SharedOnly:    g.IntN(3) == 0,
		FixedWebhooks: g.IntN(2) == 0,
	}
}

// TestIndexFindsAllThatMatch tests with random policies and requests that the index never leaves out a rule that Match accepts or
// fails on.
func TestIndexFindsAllThatMatch(t *testing.T) {
	asked, answered, wanted := 0, 0, 0
	for seed := range uint64(60) {
		g := gen{rand.New(rand.NewPCG(seed, 1))}
		var programs []*policy.Program
		for i := range 1 + g.IntN(30) {
			programs = append(programs, g.program(i))
		}
		index := New(programs)
		for range 200 {
			r, q := g.request(), g.query()
			got := checkSelections(t, Compare, index.Query(r, q), q)
			want := accepted(t, programs, r, q)
			for _, k := range want {
				if !got[k] {
					t.Fatalf("seed %d: rule %s matches but is not found\nrequest %+v\nquery %+v", seed, k, r, q)
				}
			}
			for _, p := range programs {
				asked += len(p.Rules)
			}
			answered += len(got)
			wanted += len(want)
		}
	}
	// The answer must also be small; otherwise an index that returns everything would pass.
	t.Logf("%d rules asked for, %d answered, %d match", asked, answered, wanted)
	if answered > 3*wanted || wanted < 1000 {
		t.Errorf("of %d rules the index answers %d where %d match", asked, answered, wanted)
	}
}

// TestIndexWith tests that an index that was changed step by step returns the same as a new one.
func TestIndexWith(t *testing.T) {
	for seed := range uint64(20) {
		g := gen{rand.New(rand.NewPCG(seed, 2))}
		var programs []*policy.Program
		index := New(nil)
		for step := range 40 {
			var added, removed []*policy.Program
			for range g.IntN(3) {
				added = append(added, g.program(1000*step+len(added)))
			}
			if len(programs) > 0 && g.IntN(2) == 0 {
				i := g.IntN(len(programs))
				removed = append(removed, programs[i])
				programs = slices.Delete(slices.Clone(programs), i, i+1)
			}
			programs = append(programs, added...)
			before := index
			beforeAnswers := map[string]bool{}
			r, q := g.request(), g.query()
			for k := range checkSelections(t, Compare, before.Query(r, q), q) {
				beforeAnswers[k] = true
			}
			index = index.With(removed, added)
			fresh := New(programs)
			if len(index.Programs()) != len(programs) || !slices.IsSortedFunc(index.Programs(), Compare) {
				t.Fatalf("seed %d step %d: Programs are wrong", seed, step)
			}
			for range 20 {
				r, q := g.request(), g.query()
				got, want := checkSelections(t, Compare, index.Query(r, q), q), checkSelections(t, Compare, fresh.Query(r, q), q)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("seed %d step %d: changed index %v, new index %v", seed, step, got, want)
				}
			}
			if got := checkSelections(t, Compare, before.Query(r, q), q); fmt.Sprint(got) != fmt.Sprint(beforeAnswers) {
				t.Fatalf("seed %d step %d: the index before the change answers differently now", seed, step)
			}
		}
	}
}

// With keeps the views that a change does not affect.
func TestIndexWithKeepsViewsOfOtherKinds(t *testing.T) {
	pods, services := literalProgram("a", "Pod", nil), literalProgram("b", "Service", nil)
	index := New([]*policy.Program{pods, services})
	request := podRequest("x", "ns", nil)
	index.Lookup(request, policy.StageValidate)
	index.Lookup(serviceRequest(), policy.StageValidate)
	next := index.With([]*policy.Program{services}, []*policy.Program{literalProgram("c", "Service", nil)})
	bucket := func(x *Index, kind string) *bucket { return x.buckets.byKind.load(kind) }
	if bucket(next, "Pod") == nil || bucket(next, "Pod") != bucket(index, "Pod") {
		t.Error("a change on Services made the view of Pods anew")
	}
	if bucket(next, "Service") != nil {
		t.Error("the view of Services was kept")
	}
	wild := next.With(nil, []*policy.Program{literalProgram("w", "*", nil)})
	if got := names(wild.Lookup(request, policy.StageValidate)); got != "a w" {
		t.Errorf("after a wildcard policy came: %s", got)
	}
	if got := names(wild.With(wild.Programs(), nil).Lookup(request, policy.StageValidate)); got != "" {
		t.Errorf("after all were removed: %s", got)
	}
}

func TestIndexOrder(t *testing.T) {
	b, a := literalProgram("b", "Pod", nil), literalProgram("a", "Pod", []string{"x"})
	n := literalProgram("0", "Pod", nil)
	n.Namespace = "ns"
	other := literalProgram("1", "Pod", nil)
	other.Namespace = "elsewhere"
	programs := []*policy.Program{n, b, other, a}
	if got := names(New(programs).Lookup(podRequest("x", "ns", nil), policy.StageValidate)); got != "a b ns/0" {
		t.Errorf("New answers %q", got)
	}
	if got := names(NewOrdered(programs).Lookup(podRequest("x", "ns", nil), policy.StageValidate)); got != "ns/0 b a" {
		t.Errorf("NewOrdered answers %q", got)
	}
}

// A rule may set a label that a later rule selects, so a lookup for mutation must ignore labels.
func TestIndexIgnoresLabelsWhileMutating(t *testing.T) {
	p := literalProgram("a", "Pod", nil)
	p.Rules[0].Stage = policy.StageMutate
	p.Rules[0].Targets[0].MatchLabels = map[string]string{"app": "web"}
	if got := names(New([]*policy.Program{p}).Lookup(podRequest("x", "ns", nil), policy.StageMutate)); got != "a" {
		t.Errorf("mutation: %q", got)
	}
	p.Rules[0].Stage = policy.StageValidate
	if got := names(New([]*policy.Program{p}).Lookup(podRequest("x", "ns", nil), policy.StageValidate)); got != "" {
		t.Errorf("validation: %q", got)
	}
}

func TestIndexBoundsItsViews(t *testing.T) {
	index := New([]*policy.Program{literalProgram("a", "*", nil)})
	for i := range maxBuckets + 10 {
		r := podRequest("x", "ns", nil)
		r.GVK.Kind = fmt.Sprint("Made", i)
		if got := names(index.Lookup(r, policy.StageValidate)); got != "a" {
			t.Fatalf("%q", got)
		}
	}
	if n := index.buckets.byKind.size(); n > maxBuckets || n == 0 {
		t.Errorf("%d buckets are kept", n)
	}
	r := podRequest("x", "ns", nil)
	for i := range maxViews + 10 {
		r.GVK.Version = fmt.Sprint("v", i)
		index.Lookup(r, policy.StageValidate)
	}
	if n := index.bucketFor(r).views.size(); n > maxViews || n == 0 {
		t.Errorf("%d views are kept", n)
	}
}

func names(s []policy.Selection) string {
	var out []string
	for _, x := range s {
		out = append(out, x.Program.Key())
	}
	return strings.Join(out, " ")
}

func literalProgram(name, kind string, names []string) *policy.Program {
	t, err := match.ParseKind(kind)
	if err != nil {
		panic(err)
	}
	t.Names = names
	return &policy.Program{Name: name, Settings: policy.Settings{Admission: true, Background: true}, Rules: []*policy.Rule{
		{Name: "r", Stage: policy.StageValidate, Matching: policy.Matching{Targets: []policy.Target{t}}},
	}}
}

func podRequest(name, namespace string, labels map[string]any) *policy.Request {
	return &policy.Request{Review: policy.Review{
		Operation: policy.Create, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Name: name, Namespace: namespace,
		User:   &policy.User{Username: "system:serviceaccount:kube-system:replicaset-controller", Groups: []string{"system:authenticated"}},
		Object: value.Of(map[string]any{"metadata": map[string]any{"name": name, "namespace": namespace, "labels": labels}}),
	}}
}

func serviceRequest() *policy.Request {
	r := podRequest("x", "ns", nil)
	r.GVK.Kind = "Service"
	return r
}
