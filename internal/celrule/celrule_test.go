package celrule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// TestData runs testdata/*.txtar: rule.yaml is the spec of a ValidatingAdmissionPolicy; requests.yaml (optional) a list of
// requests {name, operation, user, object, oldObject}; want has the diagnostics, the needs of the rule and the fields of the
// object that it reads, and the outcome of each request. A file may have several of these groups.
func TestData(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		var b strings.Builder
		rule := compile(t, in.Text("rule.yaml"), &b)
		requests := golden.Objects(t, in.Text("requests.yaml"))
		if rule == nil && len(requests) > 0 {
			t.Fatalf("the rule has mistakes: %s", b.String())
		}
		for _, r := range requests {
			fmt.Fprintf(&b, "%s: %s\n", r["name"], outcome(t, rule, call(t, r)))
		}
		return b.String()
	})
}

func compile(t testing.TB, text []byte, notes *strings.Builder) *celrule.Rule {
	t.Helper()
	var spec admissionregistrationv1.ValidatingAdmissionPolicySpec
	if err := yaml.UnmarshalStrict(text, &spec); err != nil {
		t.Fatal(err)
	}
	c := celrule.New(env.Declarations{}, nil)
	c.Variables(spec.Variables, "variables")
	rule := &celrule.Rule{Conditions: c.Conditions(spec.MatchConditions, "matchConditions")}
	for i := range spec.Validations {
		rule.Validations = append(rule.Validations, c.Validation(&spec.Validations[i], fmt.Sprintf("validations[%d]", i), typecheck.String))
	}
	for i := range spec.AuditAnnotations {
		rule.Annotations = append(rule.Annotations, c.Annotation(&spec.AuditAnnotations[i], fmt.Sprintf("auditAnnotations[%d]", i)))
	}
	rule.Named = c.Named()
	for _, d := range c.Diags {
		fmt.Fprintln(notes, d)
	}
	if c.Diags.HasErrors() {
		return nil
	}
	if c.Needs() != (policy.Needs{}) {
		fmt.Fprintf(notes, "needs: %s\n", strings.Join(needs(c.Needs()), " "))
	}
	fmt.Fprintf(notes, "object: %s\n", policy.ObjectReads(c.Object()))
	return rule
}

func needs(n policy.Needs) (out []string) {
	for _, need := range []struct {
		name string
		is   bool
	}{{"user", n.User}, {"oldObject", n.OldObject}, {"operation", n.Operation}, {"lookups", n.Lookups}} {
		if need.is {
			out = append(out, need.name)
		}
	}
	return out
}

func outcome(t testing.TB, r *celrule.Rule, c *policy.Call) string {
	t.Helper()
	in, err := celrule.Input(c)
	if err != nil {
		t.Fatal(err)
	}
	ok, err := r.Applies(t.Context(), c.Meter, in)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case !ok:
		return "does not apply"
	}
	out, err := r.Check(t.Context(), c.Meter, in)
	if err != nil {
		return "error: " + err.Error()
	}
	text := "holds"
	if out.Failed != nil {
		text = "fails: " + out.Message
		if out.Message == "" {
			text += "(" + out.Failed.Fallback() + ")"
		}
	}
	if out.Annotations != nil {
		text += " " + fmt.Sprint(out.Annotations)
	}
	return text
}

func call(t testing.TB, in map[string]any) *policy.Call {
	t.Helper()
	r := &policy.Request{Review: policy.Review{Operation: policy.Create, GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}}
	if o, ok := in["operation"].(string); ok {
		r.Operation = policy.Operation(o)
	}
	if u, ok := in["user"].(string); ok {
		r.User = &policy.User{Username: u}
	}
	object, _ := in["object"].(map[string]any)
	old, _ := in["oldObject"].(map[string]any)
	if object != nil {
		r.Object = value.Of(object)
	}
	if old != nil {
		r.OldObject = value.Of(old)
	}
	for _, o := range []map[string]any{old, object} {
		if m, ok := o["metadata"].(map[string]any); ok {
			r.Name, _ = m["name"].(string)
			r.Namespace, _ = m["namespace"].(string)
		}
		r.GVK.Version = "v1"
		if kind, ok := o["kind"].(string); ok {
			r.GVK.Kind = kind
		}
	}
	r.RequestGVK = r.GVK
	return &policy.Call{Env: &evalenv.Env{Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes)}, Request: r, Program: &policy.Program{}, Rule: &policy.Rule{}}
}

// The cost of expressions is charged to the account of the policy, which ends the evaluation when it is exhausted.
func TestBudget(t *testing.T) {
	rule := compile(t, []byte(`validations: [{expression: "object.list.all(a, object.list.all(b, a == b))"}]`), &strings.Builder{})
	list := make([]any, 1000)
	for i := range list {
		list[i] = int64(1)
	}
	request := budget.NewRequest()
	var last error
	evaluations := 0
	for ; last == nil && evaluations < 1000; evaluations++ {
		var account budget.Account
		request.Open(&account, rule, true)
		if account.Err() != nil {
			break
		}
		meter := budget.New(t.Context(), budget.DefaultSteps, budget.DefaultBytes)
		meter.Charge(&account)
		_, err := rule.Check(t.Context(), meter, &run.Input{Object: map[string]any{"list": list}})
		if !budget.Over(err) && !errors.Is(err, price.ErrBudget) {
			t.Fatalf("%v: the expression takes more than it may", err)
		}
		last = meter.Settle()
		request.Close(&account)
	}
	if !errors.Is(last, budget.ErrExhausted) || evaluations > 100 {
		t.Errorf("after %d evaluations: %v; the account of the policy is not charged", evaluations, last)
	}
}

// BenchmarkEvaluate measures one review of a small Pod by a rule with a match condition, a variable and two validations.
func BenchmarkEvaluate(b *testing.B) {
	rule := compile(b, []byte(`
variables: [{name: containers, expression: "object.spec.containers + object.spec.?initContainers.orValue([])"}]
matchConditions: [{name: a, expression: "request.operation != 'DELETE'"}]
validations:
- {expression: "variables.containers.all(c, has(c.image) && !c.image.endsWith(':latest'))"}
- {expression: "!has(object.spec.hostNetwork) || !object.spec.hostNetwork"}
`), &strings.Builder{})
	c := call(b, golden.Decode[map[string]any](b, []byte(`{object: {kind: Pod, metadata: {name: a, namespace: n}, spec: {containers: [{image: "a:1"}, {image: "b:1"}]}}}`)))
	b.ReportAllocs()
	for b.Loop() {
		in, err := celrule.Input(c)
		if err != nil {
			b.Fatal(err)
		}
		if ok, err := rule.Applies(b.Context(), c.Meter, in); !ok || err != nil {
			b.Fatal(ok, err)
		}
		if out, err := rule.Check(b.Context(), c.Meter, in); out.Failed != nil || err != nil {
			b.Fatal(out, err)
		}
	}
}
