package celrule_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
)

type podRule struct {
	Name        string                               `json:"name"`
	Variables   []admissionregistrationv1.Variable   `json:"variables"`
	Validations []admissionregistrationv1.Validation `json:"validations"`
}

func podRules(tb testing.TB) (out []podRule) {
	text, err := os.ReadFile("testdata/pod-rules.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		tb.Fatal(err)
	}
	return out
}

// publicRules returns the public policies for Pod Security, if they are available.
func publicRules(tb testing.TB) (out []podRule) {
	files, _ := filepath.Glob(filepath.Join(os.Getenv("EPHOR_CONFORMANCE"), "policies", "pod-security-vpol", "*", "*", "*.yaml"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		for _, doc := range strings.Split(string(text), "\n---\n") {
			var p struct {
				Kind string  `json:"kind"`
				Spec podRule `json:"spec"`
			}
			if yaml.Unmarshal([]byte(doc), &p) == nil && p.Kind == "ValidatingPolicy" {
				out = append(out, p.Spec)
			}
		}
	}
	if len(out) == 0 {
		tb.Skip("NOT RUN: no public policies")
	}
	return out
}

func compileRules(tb testing.TB, in []podRule) []*celrule.Rule {
	out := make([]*celrule.Rule, len(in))
	for i, r := range in {
		c := celrule.New(env.Declarations{Kind: env.Validating}, nil)
		c.Variables(r.Variables, "variables")
		rule := &celrule.Rule{}
		for j := range r.Validations {
			rule.Validations = append(rule.Validations, c.Validation(&r.Validations[j], "validations", typecheck.String))
		}
		rule.Named = c.Named()
		if c.Diags.HasErrors() {
			tb.Fatal(r.Name, c.Diags)
		}
		out[i] = rule
	}
	return out
}

const goodPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a","labels":{"app":"web","tier":"front"},"annotations":{"a.example/x":"1","b.example/y":"2"}},
"spec":{"securityContext":{"runAsNonRoot":true,"runAsUser":1000,"seccompProfile":{"type":"RuntimeDefault"}},
"volumes":[{"name":"a","emptyDir":{}},{"name":"b","configMap":{"name":"c"}}],
"initContainers":[{"name":"i","image":"x/i:1","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}],
"containers":[{"name":"c","image":"x/c:1","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}},"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}},
{"name":"d","image":"x/d:1","ports":[{"containerPort":81}],"env":[{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}},"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}`

const badPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a"},
"spec":{"hostNetwork":true,"securityContext":{"seccompProfile":{"type":"Unconfined"},"runAsUser":0,"sysctls":[{"name":"x","value":"1"}]},"volumes":[{"name":"a","hostPath":{"path":"/"}}],
"containers":[{"name":"c","image":"x/c:1","ports":[{"containerPort":80,"hostPort":80}],"securityContext":{"privileged":true,"procMount":"Unmasked","capabilities":{"add":["SYS_ADMIN"]},"seLinuxOptions":{"type":"x","user":"y"}}}]}}`

func pod(tb testing.TB, text string) any {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatal(err)
	}
	return v
}

// The rules hold for the good Pod, and most of them do not for the bad one.
func TestPodRules(t *testing.T) {
	good, bad := pod(t, goodPod), pod(t, badPod)
	failed := 0
	for i, r := range compileRules(t, podRules(t)) {
		name := podRules(t)[i].Name
		if out, err := check(r, good); err != nil || out.Failed != nil {
			t.Errorf("%s on the good Pod: %+v, %v", name, out, err)
		}
		if out, err := check(r, bad); err != nil {
			t.Errorf("%s on the bad Pod: %v", name, err)
		} else if out.Failed != nil {
			failed++
		}
	}
	if failed < 13 {
		t.Errorf("%d rules do not hold for the bad Pod", failed)
	}
}

func check(r *celrule.Rule, object any) (celrule.Outcome, error) {
	m := budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes)
	return r.Check(context.Background(), m, &run.Input{Object: object, OldObject: map[string]any{}})
}

func benchmark(b *testing.B, in []podRule, text string) {
	rules, object := compileRules(b, in), pod(b, text)
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range rules {
			if _, err := check(r, object); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkPodRulesGood(b *testing.B)    { benchmark(b, podRules(b), goodPod) }
func BenchmarkPodRulesBad(b *testing.B)     { benchmark(b, podRules(b), badPod) }
func BenchmarkPublicRulesGood(b *testing.B) { benchmark(b, publicRules(b), goodPod) }

// BenchmarkCompile measures the cost of loading a policy.
func BenchmarkCompile(b *testing.B) {
	in := podRules(b)
	b.ReportAllocs()
	for b.Loop() {
		compileRules(b, in)
	}
}
