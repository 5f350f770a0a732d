package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	policyText = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: need-label}
spec:
  rules:
  - name: check
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      message: no label
      pattern: {metadata: {labels: {app: "?*"}}}
`
	registryText = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: registry}
spec:
  rules:
  - name: image
    match: {any: [{resources: {kinds: [Pod]}}]}
    context: [{name: image, imageRegistry: {reference: nginx}}]
    validate: {message: no user, deny: {conditions: {all: [{key: "{{ image.configData.config.User }}", operator: Equals, value: ""}]}}}
`
	signedText = `apiVersion: policies.kyverno.io/v1
kind: ImageValidatingPolicy
metadata: {name: signed}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  attestors: [{name: a, cosign: {keyless: {identities: [{issuer: i, subject: s}]}}}]
  images: [{name: all, expression: "['nginx']"}]
  validationConfigurations: {verifyDigest: false, required: false}
  validations: [{expression: "images.all.all(i, verifyImageSignatures(i, [attestors.a]) > 0)"}]
`
	withRegistry = "# with the policies registry and signed\n"
	later        = "---\napiVersion: policies.kyverno.io/v1\nkind: FuturePolicy\nmetadata: {name: later}\n"
	podsText     = "apiVersion: v1\nkind: Pod\nmetadata: {name: good, labels: {app: x}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: bad}\n"
	passed       = `{"policy": "need-label", "rule": "check", "kind": "Pod", "namespace": "default", "name": "good", "result": "pass", "message": "validation rule 'check' passed."}`
	failed       = `{"policy": "need-label", "rule": "check", "kind": "Pod", "namespace": "default", "name": "bad", "result": "fail", "message": "validation error: no label. rule check failed at path /metadata/labels/"}`
)

func recorded(exit, results string) string {
	return `{"exitCode": ` + exit + `, "results": [` + results + `]}`
}

// The runner of recordings detects every kind of difference.
func TestConformanceDifferentialNotices(t *testing.T) {
	for _, c := range []struct {
		name, policy, expected string
		run, missing           int
		failure                string // "" if the case passes
	}{
		{"equal", policyText, recorded("1", passed+","+failed), 1, 0, ""},
		{"free words", policyText, recorded("1", passed+","+strings.Replace(failed, `"validation error: no label. rule check failed at path /metadata/labels/"`, "null", 1)), 1, 0, ""},
		{"status", policyText, recorded("1", passed+","+strings.Replace(failed, `"fail"`, `"skip"`, 1)), 1, 0, "want skip"},
		{"message", policyText, recorded("1", passed+","+strings.Replace(failed, "no label", "other", 1)), 1, 0, "want fail: validation error: other"},
		{"one too few", policyText, recorded("1", passed+","+failed+","+failed), 1, 0, "got  no result"},
		{"one too many", policyText, recorded("1", passed), 1, 0, "want no result"},
		{"exit code", policyText, recorded("0", passed+","+failed), 1, 0, "exit code 1, want 0"},
		{"one policy is not there yet", policyText + later, recorded("0", passed+","+failed), 1, 1, ""},
		{"no policy is there yet", later, recorded("0", ""), 0, 1, ""},
		{"broken recording", policyText, "{", 0, 0, "unexpected end of JSON input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := differential(write(t, map[string]string{"policy.yaml": c.policy, "resources.yaml": podsText, "expected.json": c.expected}))
			verify(t, v, c.run, c.missing, c.failure)
		})
	}
}

func verify(t *testing.T, v verdict, run, missing int, failure string) {
	t.Helper()
	if v.run != run || len(v.missing) != missing {
		t.Errorf("%d policies run and %v missing, want %d and %d", v.run, v.missing, run, missing)
	}
	text := strings.Join(v.failures, "\n")
	if failure == "" && text != "" || !strings.Contains(text, failure) {
		t.Errorf("failures %q, want %q", text, failure)
	}
}

// The runner of Test files detects every kind of difference.
func TestConformanceSuiteNotices(t *testing.T) {
	header := "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: x}\npolicies: [../policy.yaml]\nresources: [pods.yaml]\n"
	expect := func(policy, rule, resources, result string) string {
		return "- {policy: " + policy + ", rule: " + rule + ", resources: [" + resources + "], kind: Pod, result: " + result + "}\n"
	}
	for _, c := range []struct {
		name, text   string
		run, missing int
		turned       bool
		failure      string
	}{
		{"equal", "results:\n" + expect("need-label", "check", "good", "pass") + expect("ns/need-label", "check", "default/bad", "fail"), 1, 0, true, ""},
		{"status", "results:\n" + expect("need-label", "check", "good", "fail"), 1, 0, false, "Want fail, got pass"},
		{"unknown policy", "results:\n" + expect("nope", "check", "good", "pass"), 1, 0, false, "Not found: there is no policy nope"},
		{"unknown rule", "results:\n" + expect("need-label", "nope", "good", "fail"), 1, 0, false, ""},
		{"unknown field", "result:\n" + expect("need-label", "check", "good", "fail"), 1, 0, false, "found 1 errors after loading tests"},
		{"a registry", withRegistry + "results:\n" + expect("registry", "image", "good", "pass"), 0, 1, false, ""},
		{"signatures", withRegistry + "results:\n- {policy: signed, isImageValidatingPolicy: true, resources: [good], kind: Pod, result: pass}\n", 0, 1, false, ""},
		{"a registry and a failure", withRegistry + "results:\n" + expect("registry", "image", "good", "pass") + expect("need-label", "check", "good", "fail"), 3, 0, false, "Want fail, got pass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.HasPrefix(c.text, withRegistry) {
				c.text = strings.Replace(header, "policy.yaml", "policy.yaml, ../registry.yaml, ../signed.yaml", 1) + c.text
			} else {
				c.text = header + c.text
			}
			dir := write(t, map[string]string{"policy.yaml": policyText, "registry.yaml": registryText, "signed.yaml": signedText, "tests/pods.yaml": podsText, "tests/" + suiteFile: c.text})
			v := runSuite(filepath.Join(dir, "tests"))
			verify(t, v, c.run, c.missing, c.failure)
			if v.turned != c.turned {
				t.Errorf("turned round: %v, want %v", v.turned, c.turned)
			}
		})
	}
}

// The runner detects an expectation that passes whatever the result is, by inverting it.
func TestConformanceTurnRound(t *testing.T) {
	dir := write(t, map[string]string{"policy.yaml": policyText, "pods.yaml": podsText, suiteFile: "apiVersion: x\nkind: Test\n" +
		"policies: [policy.yaml]\nresources: [pods.yaml]\nresults:\n- {policy: need-label, rule: nope, resources: [good], result: pass}\n"})
	suites, err := readSuites(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turnRound(suites, []row{{Policy: "need-label", Rule: "nope", Resource: "v1/Pod/default/good", Reason: "Ok"}}); err == nil ||
		!strings.Contains(err.Error(), "does not fail") {
		t.Errorf("an expectation of a rule that is not there: %v", err)
	}
	if _, err := turnRound(suites, []row{{Policy: "other", Reason: "Ok"}}); err == nil {
		t.Error("a row that belongs to no expectation")
	}
	if turned, err := turnRound(suites, []row{{Reason: "Excluded"}}); turned || err != nil {
		t.Errorf("nothing to turn: %v, %v", turned, err)
	}
}

func TestConformanceSummary(t *testing.T) {
	got := summary("all", []verdict{
		{name: "a", run: 1, policies: 1, results: 3},
		{name: "b", policies: 1, missing: []string{"mutate.foreach", "generate", "generate"}},
		{name: "c", run: 1, policies: 2, results: 2, missing: []string{"generate"}, turned: true},
		{name: "d", run: 1, policies: 1, results: 1, failures: []string{"x"}},
	})
	want := "all: 2 of 4 cases pass (1 failed, 1 of those that pass are run in part), 6 results compared;\n  1 of those that pass fail with an expectation turned round, 1 have none to turn\n" +
		"    1 wait for generate: c\n    1 wait for generate + mutate.foreach: b\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestConformanceFolder(t *testing.T) {
	t.Setenv(envData, none)
	if _, ok, err := folder(); ok || err != nil {
		t.Errorf("none: %v, %v", ok, err)
	}
	t.Setenv(envData, filepath.Join(t.TempDir(), "missing"))
	if _, _, err := folder(); err == nil || !strings.Contains(err.Error(), envData) {
		t.Errorf("a missing folder: %v; want an error that names the variable", err)
	}
	dir := t.TempDir()
	t.Setenv(envData, dir)
	if got, ok, err := folder(); got != dir || !ok || err != nil {
		t.Errorf("a folder: %q, %v, %v", got, ok, err)
	}
}
