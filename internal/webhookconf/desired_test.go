package webhookconf

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/discovery/discoverytest"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

type served = discoverytest.Served

const cluster = discoverytest.Cluster

func kinds(texts ...string) []policy.Target {
	var out []policy.Target
	for _, text := range texts {
		t := policy.Target{Group: "*", Version: "*"}
		text, ops, _ := strings.Cut(text, "@")
		for op := range strings.FieldsSeq(strings.ReplaceAll(ops, ",", " ")) {
			t.Operations = append(t.Operations, policy.Operation(op))
		}
		t.Kind, t.Subresource, _ = strings.Cut(text, "/")
		out = append(out, t)
	}
	return out
}

func program(name string, change func(*policy.Program), targets ...string) *policy.Program {
	p := &policy.Program{
		Kind: "ClusterPolicy", Name: name, Settings: policy.Settings{Admission: true},
		Rules: []*policy.Rule{{Name: "r", Stage: policy.StageValidate, Matching: policy.Matching{Targets: kinds(targets...)}}},
	}
	if change != nil {
		change(p)
	}
	return p
}

func in(programs ...*policy.Program) Input {
	for _, p := range programs {
		if p.Webhooks == nil {
			p.Webhooks = classic.Webhooks(p)
		}
	}
	s, _ := settings.Parse(map[string]string{
		"webhooks":           `{"namespaceSelector":{"matchLabels":{"a":"b"}}}`,
		"webhookAnnotations": `{"admissions.enforcer/disabled":"true"}`,
	})
	return Input{
		Programs: programs, Settings: s, CABundle: []byte("CA"), Resources: discovery.New(cluster, time.Now),
		Options: Options{Namespace: "kyverno", Service: "kyverno-svc", ServicePort: 443, TimeoutSeconds: 10, AdmissionReports: true},
	}
}

func validatingOf(c Configurations, name string) *admissionv1.ValidatingWebhookConfiguration {
	for _, v := range c.Validating {
		if v.Name == name {
			return v
		}
	}
	return nil
}

func mutatingOf(c Configurations, name string) *admissionv1.MutatingWebhookConfiguration {
	for _, m := range c.Mutating {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// text prints the resource webhooks of the validating configurations, or of the mutating ones.
func text(c Configurations, mutating bool) string {
	var b strings.Builder
	hook := func(name string, cc admissionv1.WebhookClientConfig, fp admissionv1.FailurePolicyType, timeout int32, conditions []admissionv1.MatchCondition, rules []admissionv1.RuleWithOperations) {
		where := ""
		if cc.Service != nil {
			where = *cc.Service.Path
		} else {
			where = *cc.URL
		}
		fmt.Fprintf(&b, "%s %s %s %d", name, where, fp, timeout)
		for _, c := range conditions {
			b.WriteString(" if " + c.Name)
		}
		b.WriteString("\n")
		for _, r := range rules {
			var ops []string
			for _, o := range r.Operations {
				ops = append(ops, string(o))
			}
			fmt.Fprintf(&b, "  %q %s %s %s %s\n", r.APIGroups[0], r.APIVersions[0], strings.Join(r.Resources, ","), *r.Scope, strings.Join(ops, ","))
		}
	}
	if mutating {
		for _, name := range []string{ResourceMutating, NamespacedMutating} {
			if m := mutatingOf(c, name); m != nil {
				for _, w := range m.Webhooks {
					hook(w.Name, w.ClientConfig, *w.FailurePolicy, *w.TimeoutSeconds, w.MatchConditions, w.Rules)
				}
			}
		}
		return b.String()
	}
	for _, name := range []string{ResourceValidating, NamespacedValidating} {
		if v := validatingOf(c, name); v != nil {
			for _, w := range v.Webhooks {
				hook(w.Name, w.ClientConfig, *w.FailurePolicy, *w.TimeoutSeconds, w.MatchConditions, w.Rules)
			}
		}
	}
	return b.String()
}

const everything = "CONNECT,CREATE,DELETE,UPDATE"

// The webhooks for resources select the kinds, operations, scopes and subresources that the policies name.
func TestResourceWebhooks(t *testing.T) {
	ignore := func(p *policy.Program) { p.Settings.FailurePolicy = policy.Ignore }
	namespaced := func(p *policy.Program) { p.Kind, p.Namespace = "Policy", "team" }
	fine := func(p *policy.Program) {
		p.Settings.MatchConditions = []policy.MatchCondition{{Name: "not-nodes", Expression: "true"}}
	}
	mutate := func(p *policy.Program) { p.Rules[0].Stage = policy.StageMutate }
	images := func(p *policy.Program) { p.Rules[0].Stage = policy.StageVerifyImages }
	requiredImages := func(p *policy.Program) { p.Rules[0].Stage = policy.StageVerifyImages | policy.StageValidate }
	for _, c := range []struct {
		name     string
		programs []*policy.Program
		options  func(*Input)
		mutating bool
		want     string
	}{
		{name: "no policy, no webhook"},
		{
			name: "merged by group, version, scope and operations; Pod brings its ephemeral containers",
			programs: []*policy.Program{
				program("a", nil, "Pod", "ReplicationController", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "CronJob", "Job"),
				program("b", nil, "Namespace", "ConfigMap", "Pod"),
			},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10
  "" v1 namespaces * ` + everything + `
  "" v1 configmaps,pods,pods/ephemeralcontainers,replicationcontrollers Namespaced ` + everything + `
  "apps" v1 daemonsets,deployments,replicasets,statefulsets Namespaced ` + everything + `
  "batch" v1 cronjobs,jobs Namespaced ` + everything + `
`,
		},
		{
			name:     "split by failurePolicy; operations as given",
			programs: []*policy.Program{program("a", nil, "ConfigMap@CREATE"), program("b", ignore, "Service@UPDATE,DELETE")},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10
  "" v1 configmaps Namespaced CREATE
validate.kyverno.svc-ignore /validate/ignore Ignore 10
  "" v1 services Namespaced DELETE,UPDATE
`,
		},
		{
			name:     "the same resource with different operations is united",
			programs: []*policy.Program{program("a", nil, "ConfigMap@CREATE"), program("b", nil, "ConfigMap@UPDATE")},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10
  "" v1 configmaps Namespaced CREATE,UPDATE
`,
		},
		{
			name:     "a wildcard is not resolved and covers what it holds; only other operations stay beside it",
			programs: []*policy.Program{program("a", nil, "*@CREATE"), program("b", nil, "ConfigMap@CREATE", "Namespace@CREATE,DELETE")},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10 if ephor.dev/not-by-wildcard
  "" v1 namespaces * DELETE
  "*" * *,pods/ephemeralcontainers * CREATE
`,
		},
		{
			name:     "a wildcard of a namespaced policy stays within namespaces",
			programs: []*policy.Program{program("a", namespaced, "*"), program("b", nil, "Namespace")},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10 if ephor.dev/not-by-wildcard if ephor.dev/namespaced-policies
  "" v1 namespaces * ` + everything + `
  "*" * *,pods/ephemeralcontainers Namespaced ` + everything + `
`,
		},
		{
			name:     "all subresources, one subresource, everything",
			programs: []*policy.Program{program("a", nil, "*/scale@CREATE"), program("b", nil, "Pod/*@CREATE")},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10 if ephor.dev/not-by-wildcard
  "" v1 pods/ephemeralcontainers,pods/exec,pods/log Namespaced CREATE
  "*" * */scale * CREATE
`,
		},
		{
			name:     "a double wildcard needs nothing beside it",
			programs: []*policy.Program{program("a", nil, "*/*"), program("b", nil, "Pod", "*/scale", "Deployment/scale", "*")},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10 if ephor.dev/not-by-wildcard
  "*" * */* * ` + everything + `
`,
		},
		{
			name: "exclude filters of kinds and operations take operations away, others do not",
			programs: []*policy.Program{
				program("a", func(p *policy.Program) {
					p.Rules[0].Excludes = append(kinds("Pod@DELETE", "Service", "Deployment/scale@CREATE"), policy.Target{Group: "*", Version: "*", Kind: "ConfigMap", Names: []string{"x"}})
				}, "Pod", "Service", "ConfigMap"),
				program("b", func(p *policy.Program) {
					p.Rules[0].Excludes = []policy.Target{{Group: "*", Version: "*", Kind: "*", Subresource: "*", Operations: []policy.Operation{policy.Connect, policy.Delete}}}
				}, "Job"),
			},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10
  "" v1 configmaps Namespaced ` + everything + `
  "" v1 pods,pods/ephemeralcontainers Namespaced CONNECT,CREATE,UPDATE
  "batch" v1 jobs Namespaced CREATE,UPDATE
`,
		},
		{
			name:     "every served version",
			programs: []*policy.Program{program("a", nil, "HorizontalPodAutoscaler@CREATE")},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10
  "autoscaling" v1 horizontalpodautoscalers Namespaced CREATE
  "autoscaling" v2 horizontalpodautoscalers Namespaced CREATE
`,
		},
		{name: "an unknown kind is left out", programs: []*policy.Program{program("a", nil, "Foo", "Pod/foo")}},
		{
			name:     "match conditions give a webhook of its own",
			programs: []*policy.Program{program("rec-fine", func(p *policy.Program) { fine(p); ignore(p) }, "Service@CREATE"), program("x", func(p *policy.Program) { fine(p); namespaced(p) }, "Service@CREATE")},
			want: `validate.kyverno.svc-fail-finegrained-team-x /validate/fail/finegrained/team/x Fail 10 if not-nodes
  "" v1 services Namespaced CREATE
validate.kyverno.svc-ignore-finegrained-rec-fine /validate/ignore/finegrained/rec-fine Ignore 10 if not-nodes
  "" v1 services Namespaced CREATE
`,
		},
		{
			name: "the longest timeout counts, at most 30 seconds",
			programs: []*policy.Program{
				program("a", func(p *policy.Program) { p.Settings.TimeoutSeconds = 25 }, "Service@CREATE"),
				program("b", func(p *policy.Program) { p.Settings.TimeoutSeconds = 5 }, "Service@CREATE"),
			},
			want: `validate.kyverno.svc-fail /validate/fail Fail 25
  "" v1 services Namespaced CREATE
`,
		},
		{
			name: "a timeout gives a namespaced policy a webhook of its own",
			programs: []*policy.Program{
				program("a", nil, "Service@CREATE"),
				program("b", func(p *policy.Program) { namespaced(p); p.Settings.TimeoutSeconds = 25 }, "Service@CREATE"),
			},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10
  "" v1 services Namespaced CREATE
validate.kyverno.svc-fail-finegrained-team-b /validate/fail/finegrained/team/b Fail 25
  "" v1 services Namespaced CREATE
`,
		},
		{
			name:     "a namespaced policy brings no cluster-scoped kinds",
			programs: []*policy.Program{program("a", namespaced, "Namespace", "CustomResourceDefinition"), program("b", func(p *policy.Program) { namespaced(p); fine(p) }, "Namespace")},
		},
		{
			name:     "what namespaced policies add to the rules is kept to their namespaces; what they do not add needs no condition",
			programs: []*policy.Program{program("a", nil, "ConfigMap"), program("b", namespaced, "ConfigMap@CREATE")},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10
  "" v1 configmaps Namespaced ` + everything + `
`,
		},
		{
			name:     "a policy without admission has no webhook",
			programs: []*policy.Program{program("a", func(p *policy.Program) { p.Settings.Admission = false }, "Service")},
		},
		{
			name:     "a URL replaces the Service",
			options:  func(in *Input) { in.Options.ServerIP = "10.0.0.1:9443" },
			programs: []*policy.Program{program("a", ignore, "Service@CREATE")},
			want: `validate.kyverno.svc-ignore https://10.0.0.1:9443/validate/ignore Ignore 10
  "" v1 services Namespaced CREATE
`,
		},
		{
			name: "mutate rules are written operations only, in the other configuration", mutating: true,
			programs: []*policy.Program{program("a", mutate, "ConfigMap"), program("b", nil, "Service")},
			want: `mutate.kyverno.svc-fail /mutate/fail Fail 10
  "" v1 configmaps Namespaced CREATE,UPDATE
`,
		},
		{
			name: "image verification is asked for where objects can be changed", mutating: true,
			programs: []*policy.Program{program("a", images, "Job"), program("b", requiredImages, "Service@CREATE")},
			want: `mutate.kyverno.svc-fail /mutate/fail Fail 10
  "" v1 services Namespaced CREATE
  "batch" v1 jobs Namespaced CREATE,UPDATE
`,
		},
		{
			name:     "and where something is required of images, in the validating configuration too",
			programs: []*policy.Program{program("a", images, "Job"), program("b", requiredImages, "Service@CREATE")},
			want: `validate.kyverno.svc-fail /validate/fail Fail 10
  "" v1 services Namespaced CREATE
`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			input := in(c.programs...)
			if c.options != nil {
				c.options(&input)
			}
			for range 5 { // the order must not depend on maps
				got, ready, _, err := Desired(input)
				if err != nil {
					t.Fatal(err)
				}
				if text := text(got, c.mutating); text != c.want {
					t.Fatalf("got\n%s\nwant\n%s", text, c.want)
				}
				for key, err := range ready {
					if err != nil {
						t.Errorf("%s is not ready: %v", key, err)
					}
				}
				if len(ready) != len(c.programs) {
					t.Errorf("ready: %v", ready)
				}
			}
		})
	}
}

func TestFixedParts(t *testing.T) {
	input := in(program("a", nil, "Service"))
	input.Options.TimeoutSeconds = 25
	got, _, _, _ := Desired(input)
	for name, want := range map[string]int32{PolicyValidating: 25, ResourceValidating: 25, "kyverno-exception-validating-webhook-cfg": 10, GlobalContextValidating: 10} {
		if w := validatingOf(got, name).Webhooks[0]; *w.TimeoutSeconds != want {
			t.Errorf("%s: timeout %d", name, *w.TimeoutSeconds)
		}
	}
	names := []string{}
	for _, c := range got.Validating {
		names = append(names, c.Name)
		if c.Labels["webhook.kyverno.io/managed-by"] != "kyverno" || c.Annotations["admissions.enforcer/disabled"] != "true" {
			t.Errorf("%s: %v %v", c.Name, c.Labels, c.Annotations)
		}
	}
	for _, c := range got.Mutating {
		names = append(names, c.Name)
	}
	if want := "kyverno-policy-validating-webhook-cfg kyverno-exception-validating-webhook-cfg kyverno-cel-exception-validating-webhook-cfg kyverno-global-context-validating-webhook-cfg kyverno-resource-validating-webhook-cfg kyverno-policy-mutating-webhook-cfg kyverno-verify-mutating-webhook-cfg kyverno-resource-mutating-webhook-cfg"; strings.Join(names, " ") != want {
		t.Errorf("names: %v", names)
	}
	policies := validatingOf(got, PolicyValidating).Webhooks[0]
	for _, k := range input.Families.Kinds() {
		reviewed := slices.ContainsFunc(policies.Rules, func(r admissionv1.RuleWithOperations) bool {
			return r.APIGroups[0] == k.Group && slices.Contains(r.Resources, k.Resource) && slices.Equal(r.APIVersions, slices.Concat(k.Versions, k.Retired))
		})
		if reviewed != k.Review.Has(family.ReviewPolicy) {
			t.Errorf("the webhook for policies has a rule for %s: %v", k.Kind, reviewed)
		}
	}
	if policies.Name != "validate-policy.kyverno.svc" || *policies.ClientConfig.Service.Path != "/policyvalidate" ||
		*policies.SideEffects != admissionv1.SideEffectClassNone || policies.NamespaceSelector == nil || len(policies.NamespaceSelector.MatchLabels) > 0 {
		t.Errorf("%+v", policies)
	}
	if w := validatingOf(got, ResourceValidating).Webhooks[0]; w.NamespaceSelector.MatchLabels["a"] != "b" || w.ObjectSelector == nil || *w.SideEffects != admissionv1.SideEffectClassNoneOnDryRun || string(w.ClientConfig.CABundle) != "CA" {
		t.Errorf("%+v", w)
	}
	if w := validatingOf(got, "kyverno-exception-validating-webhook-cfg").Webhooks[0]; *w.ClientConfig.Service.Path != "/exceptionvalidate" || *w.FailurePolicy != admissionv1.Fail ||
		strings.Join(w.Rules[0].APIVersions, " ") != "v2alpha1 v2beta1 v2" || w.Rules[0].Resources[0] != "policyexceptions" || strings.Count(w.Name, ".") < 2 {
		t.Errorf("%+v", w)
	}
	if w := mutatingOf(got, VerifyMutating).Webhooks[0]; *w.FailurePolicy != admissionv1.Ignore || w.ObjectSelector.MatchLabels["app.kubernetes.io/name"] != "kyverno" {
		t.Errorf("%+v", w)
	}
}

func BenchmarkDesired(b *testing.B) {
	var programs []*policy.Program
	for i := range 100 {
		programs = append(programs, program(fmt.Sprint("p", i), nil, "Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"))
	}
	input := in(programs...)
	b.ReportAllocs()
	for b.Loop() {
		Desired(input)
	}
}
