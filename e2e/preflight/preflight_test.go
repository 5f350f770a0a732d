package preflight

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/cli"
)

var cluster suite.Cluster

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, suite.Options{Own: true})) }

// now returns the time in the format of Leases.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }

// run runs a command of the command line with the administrator's kubeconfig.
func run(t *testing.T, stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := cli.NewRoot()
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetIn(stdin)
	code = cli.Main(append([]string{"ephor", args[0], "--kubeconfig", cluster.Kubeconfig}, args[1:]...), root)
	return out.String(), errs.String(), code
}

type finding struct {
	Code, Severity, Message string
	Object                  struct{ Kind, Namespace, Name string }
	Commands                []string
}

// preflight runs `ephor preflight -o json`.
func preflight(t *testing.T, args ...string) (findings []finding, code int) {
	t.Helper()
	out, errs, code := run(t, nil, append([]string{"preflight", "-o", "json"}, args...)...)
	var report struct{ Findings []finding }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("exit code %d: %v\n%s%s", code, err, out, errs)
	}
	return report.Findings, code
}

func named(findings []finding, code string) (names []string) {
	for _, f := range findings {
		if f.Code == code {
			names = append(names, f.Object.Name)
		}
	}
	slices.Sort(names)
	return names
}

const population = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {message: team is required, pattern: {metadata: {labels: {team: "?*"}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: makes-jobs}
spec:
  rules:
  - name: job
    match: {any: [{resources: {kinds: [Namespace]}}]}
    generate:
      apiVersion: batch/v1
      kind: CronJob
      name: clean
      namespace: "{{request.object.metadata.name}}"
      synchronize: true
      data: {spec: {schedule: "@daily", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: team}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "has(object.metadata.labels)"}]
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: kyverno-background-controller, namespace: kyverno}
spec: {holderIdentity: kyverno-background-controller-7c9, leaseDurationSeconds: 3600, renewTime: "RENEWED"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kyverno-policy-validating-webhook-cfg, labels: {webhook.kyverno.io/managed-by: kyverno}}
webhooks:
- name: validate-policy.kyverno.svc
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {namespace: kyverno, name: nobody, path: /policyvalidate}}
  rules: [{apiGroups: [example.com], apiVersions: ["*"], operations: [CREATE], resources: [nothing]}]
`

// The definitions have the annotations of Kyverno's release, which keep half of them. preflight reports those that Helm would delete, and
// changes nothing. --fix keeps them, and changes nothing else.
func TestPreflight(t *testing.T) {
	names := strings.Fields(cluster.Must(t, "", "get", "crd", "-o", "jsonpath={.items[*].metadata.name}"))
	kept := func(name string) bool { return strings.HasSuffix(name, ".policies.kyverno.io") }
	var want []string
	for _, name := range names {
		annotations := []string{"annotate", "crd", name, "meta.helm.sh/release-name=kyverno", "meta.helm.sh/release-namespace=kyverno"}
		if !kept(name) {
			annotations = append(annotations, "helm.sh/resource-policy=keep")
		} else {
			annotations = append(annotations, "helm.sh/resource-policy-") // an earlier run of the test may have added it
			want = append(want, name)
		}
		cluster.Must(t, "", annotations...)
	}
	slices.Sort(want)
	if len(want) < 10 || len(want) == len(names) {
		t.Fatalf("%d definitions of %d", len(want), len(names))
	}
	cluster.Apply(t, strings.Replace(population, "RENEWED", now(), 1))
	state := func() string { // except the API server's own Leases
		text := cluster.Must(t, "", "get", "crd,clusterpolicies,validatingpolicies,clusterroles,deployments,configmaps,secrets,leases,validatingwebhookconfigurations", "-A",
			"-o", `jsonpath={range .items[*]}{.kind} {.metadata.namespace} {.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
		return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.Contains(l, " kube-system ") }), "\n")
	}
	before := state()
	found, code := preflight(t)
	if got := named(found, "definition-not-kept"); code != 1 || !slices.Equal(got, want) {
		t.Errorf("exit code %d, lost\n%q, want\n%q", code, got, want)
	}
	if after := state(); after != before {
		t.Errorf("preflight changed something:\n%s\nbefore\n%s", after, before)
	}
	for _, f := range found {
		if f.Code == "definition-not-kept" && f.Object.Name == "validatingpolicies.policies.kyverno.io" && !strings.Contains(f.Message, "its only object") {
			t.Errorf("%s: %s", f.Object.Name, f.Message)
		}
	}
	for code, object := range map[string]string{
		"right-missing": "makes-jobs", "lease-held": "kyverno-background-controller", "webhook-unanswered": "kyverno-policy-validating-webhook-cfg",
	} {
		if got := named(found, code); !slices.Contains(got, object) {
			t.Errorf("%s: %q, want %s", code, got, object)
		}
	}
	for _, code := range []string{"policy-not-enforced", "not-checked", "kubernetes-version"} {
		if got := named(found, code); len(got) > 0 {
			t.Errorf("%s: %q", code, got)
		}
	}
	// The command that a finding names corrects it.
	for _, f := range found {
		if f.Code == "definition-not-kept" && f.Object.Name == want[0] {
			args := strings.Fields(strings.TrimPrefix(f.Commands[0], "kubectl "))
			cluster.Must(t, "", args...)
		}
	}
	if found, _ := preflight(t); !slices.Equal(named(found, "definition-not-kept"), want[1:]) {
		t.Errorf("after its command: %q", named(found, "definition-not-kept"))
	}
	out, errs, code := run(t, nil, "preflight", "--fix")
	if !strings.Contains(errs, fmt.Sprintf("--fix annotated %d definitions and changed nothing else", len(want)-1)) || strings.Contains(out, "definition-not-kept") || code != 1 {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	if got := strings.Count(cluster.Must(t, "", "get", "crd", "-o", `jsonpath={.items[*].metadata.annotations.helm\.sh/resource-policy}`), "keep"); got != len(names) {
		t.Errorf("%d of %d definitions are kept", got, len(names))
	}
	unchanged := func(s string) string {
		return strings.Join(slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return strings.HasPrefix(l, "CustomResourceDefinition") }), "\n")
	}
	if after := state(); unchanged(after) != unchanged(before) {
		t.Errorf("--fix changed something else:\n%s\nbefore\n%s", after, before)
	}
}

// uninstall deletes the objects that Ephor created for itself, keeps those of policies, and deletes nothing while a controller runs.
func TestUninstall(t *testing.T) {
	// The Lease of a replica, in the format of package ring.
	ring := `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: ephor-background-1, namespace: kyverno, labels: {ephor.dev/ring: background}}, spec: {holderIdentity: a, leaseDurationSeconds: SECONDS, renewTime: "` + now() + `"}}`
	cluster.Apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: ephor-webhook-routes, namespace: kyverno}
---
apiVersion: v1
kind: Secret
metadata: {name: another, namespace: kyverno}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ephor-generated-3, namespace: kyverno, labels: {ephor.dev/record: generated}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: ephor-resource-validating-webhook-cfg, labels: {webhook.kyverno.io/managed-by: kyverno}}
`+"---"+strings.Split(population, "---")[1])
	cluster.Must(t, "", "annotate", "configmap", "kyverno", "-n", "kyverno", "ephor.dev/unlocked-until=2026-01-31T12:00:00Z")
	cluster.Must(t, strings.Replace(ring, "SECONDS", "3600", 1), "apply", "-f", "-")
	if _, errs, code := run(t, nil, "uninstall", "--leave-policies", "--yes"); code != 1 || !strings.Contains(errs, "Ephor still runs") || !strings.Contains(errs, "ephor-background-1") {
		t.Errorf("exit code %d:\n%s", code, errs)
	}
	cluster.Must(t, strings.Replace(ring, "SECONDS", "1", 1), "apply", "-f", "-")
	suite.Until(t, "the Lease to run out", func() error {
		if _, errs, code := run(t, nil, "uninstall", "--leave-policies", "--dry-run"); code != 0 || strings.Contains(errs, "still runs") {
			return fmt.Errorf("exit code %d: %s", code, errs)
		}
		return nil
	})
	const all = `ConfigMap/kyverno/ephor-generated-3
annotation ephor.dev/unlocked-until of ConfigMap/kyverno/kyverno
Lease/kyverno/ephor-background-1
Secret/kyverno/ephor-webhook-routes
ValidatingWebhookConfiguration/ephor-resource-validating-webhook-cfg
`
	listed := func(out string) string {
		var b strings.Builder
		for line := range strings.Lines(out) {
			if name, _, ok := strings.Cut(line, " ("); ok {
				b.WriteString(name + "\n")
			}
		}
		return b.String()
	}
	if out, errs, code := run(t, strings.NewReader("n\n"), "uninstall", "--leave-policies"); code != 1 || listed(out) != all || !strings.Contains(errs, "Remove 5 items? [y/N]") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	if out, errs, code := run(t, strings.NewReader(""), "uninstall", "--leave-policies"); code != 1 || !strings.Contains(errs, "--yes removes without asking") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	if out, errs, code := run(t, strings.NewReader("y\n"), "uninstall", "--leave-policies"); code != 0 || !strings.Contains(out, "removed 5 items") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	if out, _, code := run(t, nil, "uninstall", "--leave-policies", "--yes"); code != 0 || out != "nothing of Ephor is left\n" {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	cluster.Must(t, "", "get", "secret", "another", "-n", "kyverno")
	cluster.Must(t, "", "get", "configmap", "kyverno", "-n", "kyverno")
	cluster.Must(t, "", "get", "clusterpolicy", "makes-jobs")
}
