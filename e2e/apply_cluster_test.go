package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cli"
)

// applyCluster runs `ephor apply --cluster` with each policy in its own file, and returns its output.
func applyCluster(t *testing.T, policies string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(path, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Main(append([]string{"ephor", "apply", path, "--cluster", "--kubeconfig", cluster.Kubeconfig}, args...), root)
	return out.String(), errs.String(), code
}

func policyOf(name, kinds, rest string) string {
	return fmt.Sprintf(`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: %s, annotations: {pod-policies.kyverno.io/autogen-controllers: none}}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [%s]}}]}
    %s
`, name, kinds, strings.ReplaceAll(strings.TrimSpace(rest), "\n", "\n    "))
}

// `ephor apply --cluster` evaluates the cluster's objects of the policies' kinds, in the scope that the flags select, with the labels of
// namespaces and with lookups in the cluster.
func TestApplyCluster(t *testing.T) {
	must(t, `
{apiVersion: v1, kind: Namespace, metadata: {name: judged, labels: {tier: gold}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: judged-too}}
`, "apply", "-f", "-")
	t.Cleanup(func() { _, _ = kubectl(t, "", "delete", "ns", "judged", "judged-too", "--wait=false") })
	var maps strings.Builder
	for i := range 7 {
		for _, ns := range []string{"judged", "judged-too"} {
			fmt.Fprintf(&maps, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: judged-%d, namespace: %s}, data: {count: %q}}\n", i, ns, fmt.Sprint(i))
		}
	}
	maps.WriteString("---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: judged-web, namespace: judged}, spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: nginx}]}}}}\n")
	maps.WriteString("---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: judged}, rules: []}\n")
	must(t, maps.String(), "apply", "-f", "-")
	t.Cleanup(func() { _, _ = kubectl(t, "", "delete", "clusterrole", "judged") })

	must(t, `
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: judged, namespace: judged}
spec:
  match: {any: [{resources: {kinds: [ConfigMap], names: [judged-6]}}]}
  exceptions: [{policyName: few, ruleNames: [r]}]
---
apiVersion: policies.kyverno.io/v1
kind: PolicyException
metadata: {name: judged, namespace: judged}
spec:
  policyRefs: [{kind: ValidatingPolicy, name: few}]
  matchConditions: [{name: five, expression: object.metadata.name == 'judged-5'}]
---
apiVersion: kyverno.io/v2beta1
kind: GlobalContextEntry
metadata: {name: judged}
spec:
  kubernetesResource: {version: v1, resource: configmaps, namespace: judged}
  projections: [{name: numbers, jmesPath: "[?kind == 'ConfigMap'].data.count | sort(@)"}]
`, "apply", "-f", "-")
	t.Cleanup(func() { _, _ = kubectl(t, "", "delete", "globalcontextentry", "judged") })

	few := policyOf("few", "ConfigMap", `
preconditions: {all: [{key: "{{ request.object.metadata.name }}", operator: Equals, value: "judged-*"}]}
validate: {message: too much, pattern: {data: {count: "<5"}}}`)
	for _, c := range []struct {
		name, policies string
		args           []string
		code           int
		stdout, stderr []string
		not            string
	}{
		{"one namespace, page by page", few, []string{"-n", "judged", "--batch-size", "2"}, 1,
			[]string{"policy few -> resource judged/ConfigMap/judged-5 failed:\n1 - r validation error: too much. rule r failed at path /data/count/\n", "pass: 5, fail: 2, warn: 0, error: 0, skip: 1 "}, nil, "judged-too"},
		{"objects by name", few, []string{"-r", "judged-1,judged-6"}, 1,
			[]string{"Applying 1 policy rule(s) to 4 resource(s)...", "judged-too/ConfigMap/judged-6 failed", "pass: 2, fail: 2, "}, nil, "judged-5"},
		{"a name that is not there", few, []string{"-r", "judged-1", "-r", "nobody"}, 1,
			[]string{"----\nresource nobody not found in cluster\n----"}, []string{"Error: failed to load resources (nobody not found in cluster)"}, "Applying"},
		{"labels of namespaces", policyOf("gold", "ConfigMap", `
exclude: {any: [{resources: {namespaceSelector: {matchLabels: {tier: gold}}}}]}
validate: {message: all fail, deny: {}}`), []string{"-r", "judged-1"}, 1, []string{"judged-too/ConfigMap/judged-1 failed", "fail: 1, "}, nil, "judged/ConfigMap"},
		{"subresources", policyOf("scale", "Deployment/scale", `
validate: {message: too many, pattern: {spec: {replicas: "<3"}}}`), []string{"-n", "judged"}, 1, []string{"judged/Scale/judged-web failed", "fail: 1, "}, nil, ""},
		{"cluster-wide resources", policyOf("rules", "ClusterRole, ConfigMap", `
preconditions: {all: [{key: "{{ request.object.metadata.name }}", operator: Equals, value: "judged*"}]}
validate: {message: no rules, deny: {}}`), []string{"--cluster-wide-resources"}, 1, []string{"/ClusterRole/judged failed", "fail: 1, "}, nil, "ConfigMap"},
		{"several kinds at once, in their order", policyOf("rules", "Deployment, ConfigMap, Pod, Secret", `
validate: {message: nothing, deny: {}}`), []string{"-n", "judged", "--concurrent", "4", "-r", "judged-web", "-r", "judged-0"}, 1,
			[]string{"judged/Deployment/judged-web failed:\n1 - r nothing\npolicy rules -> resource judged/ConfigMap/judged-0 failed"}, nil, ""},
		{"lookups", policyOf("lookup", "Deployment", `
context:
- {name: first, configMap: {name: judged-3, namespace: "{{ request.namespace }}"}}
- {name: all, apiCall: {urlPath: "/api/v1/namespaces/judged-too/configmaps", jmesPath: "items[?starts_with(metadata.name, 'judged')] | length(@)"}}
validate: {message: "{{ first.data.count }} of {{ all }}", deny: {}}`), []string{"-n", "judged"}, 1, []string{"1 - r 3 of 7"}, nil, ""},
		{"parameters", policyOf("params", "ConfigMap", `
validate:
  cel:
    paramKind: {apiVersion: v1, kind: ConfigMap}
    paramRef: {name: judged-4, namespace: judged, parameterNotFoundAction: Deny}
    expressions: [{expression: "object.data.count < params.data.count", message: not less}]`), []string{"-n", "judged", "-r", "judged-3", "-r", "judged-5"}, 1,
			[]string{"judged/ConfigMap/judged-5 failed:\n1 - r not less", "pass: 1, fail: 1, "}, nil, ""},
		{"exceptions of the cluster", few, []string{"-n", "judged", "-r", "judged-5,judged-6", "--exceptions-with-resources"}, 1,
			[]string{"with 2 exception(s)", "judged/ConfigMap/judged-5 failed", "pass: 0, fail: 1, warn: 0, error: 0, skip: 1 "}, nil, "judged-6"},
		{"exceptions of the cluster from a policy in CEL", `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: few}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: int(object.data.count) < 5, message: too much}]
`, []string{"-n", "judged", "-r", "judged-5,judged-6", "--exceptions-with-resources"}, 1,
			[]string{"with 2 exception(s)", "judged/ConfigMap/judged-6 failed", "pass: 0, fail: 1, warn: 0, error: 0, skip: 1 "}, nil, "judged-5"},
		{"a GlobalContextEntry of the cluster", policyOf("global", "Deployment", `
context:
- {name: numbers, globalReference: {name: judged.numbers}}
validate: {message: "{{ join(',', numbers) }}", deny: {}}`), []string{"-n", "judged"}, 1, []string{"1 - r 0,1,2,3,4,5,6"}, nil, ""},
		{"a report", few, []string{"-n", "judged", "-r", "judged-6", "--policy-report"}, 1, []string{"namespace: judged\n", "  fail: 1\n"}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, code := applyCluster(t, c.policies, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.stdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("it printed\n%s\nwithout\n%s", stdout, want)
				}
			}
			for _, want := range c.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("it printed\n%s\nwithout\n%s", stderr, want)
				}
			}
			if c.not != "" && strings.Contains(stdout, c.not) {
				t.Errorf("it printed\n%s\nwith %s", stdout, c.not)
			}
			if len(c.stderr) == 0 && stderr != "" {
				t.Errorf("it printed\n%s", stderr)
			}
		})
	}
}
