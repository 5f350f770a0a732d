package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ruled returns a ClusterPolicy with one rule for Pods that has the given fields.
func ruled(name, rule string) string {
	return "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata:\n  name: " + name +
		"\nspec:\n  rules:\n  - name: r\n    match:\n      any:\n      - resources:\n          kinds: [Pod]\n" + rule
}

const requiresTeam = "    validate: {message: m, pattern: {metadata: {labels: {team: \"?*\"}}}}\n"

func denied(condition string) string {
	return "    validate:\n      message: m\n      deny:\n        conditions:\n          any:\n          - " + condition + "\n"
}

// For common mistakes, the output contains the helpful sentence: where the mistake is, and how to correct it. If Kyverno has a text for the
// mistake that can be read, it comes first, verbatim.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		want         []string // texts in the output of apply and lint, each on one line
		fails        bool     // the policy is refused
	}{
		{
			"a variable without quotes", ruled("p", "    validate:\n      message: m\n      pattern: {metadata: {labels: {a: b}}}\n      x: {{ x }}\n"),
			[]string{`policy.yaml:15: {{ x }} without quotes is not text in YAML, but a mapping whose key is a mapping (quote it: "{{ x }}")`}, true,
		},
		{
			"a variable without quotes before text", ruled("p", "    validate:\n      message: {{ x }}-suffix\n"),
			[]string{`policy.yaml:13: broken YAML: `, `(quote a value that has a variable: "{{ … }}")`}, true,
		},
		{
			"the kind in other letters", strings.Replace(ruled("p", requiresTeam), "ClusterPolicy", "Clusterpolicy", 1),
			[]string{"policy.yaml:2: policies of kind Clusterpolicy (kyverno.io/v1) are not supported by this version (did you mean ClusterPolicy?)"}, true,
		},
		{
			"a misspelt operator", ruled("p", denied(`{key: "{{ request.object.spec.x }}", operator: GreaterThen, value: 1}`)),
			[]string{"entered value of `operator` is invalid. valid values: [\"Equals\"", "(did you mean GreaterThan?)"}, true,
		},
		{
			"a query that is not closed", ruled("p", denied(`{key: "{{ request.object.spec.containers[.image }}", operator: Equals, value: 1}`)),
			[]string{`policy.yaml:17: spec.rules[0].validate.deny.conditions.any[0].key: `, `SyntaxError: Expected tStar, received: tDot (unexpected "." after "[")`}, true,
		},
		{
			"a query that ends too early", ruled("p", denied(`{key: "{{ request.object.metadata. }}", operator: Equals, value: 1}`)),
			[]string{`(the expression ends after ".": complete it)`}, true,
		},
		{
			"a misspelt context entry", ruled("p", "    context:\n    - name: allowed\n      variable: {value: [a]}\n"+denied(`{key: "{{ request.object.metadata.name }}", operator: AnyIn, value: "{{ alowed }}"}`)),
			[]string{"there is no variable alowed in rule r", "(did you mean allowed?)"}, true,
		},
		{
			"Latin-1", strings.Replace(ruled("p", requiresTeam), "message: m", "message: caf\xe9", 1),
			[]string{"policy.yaml:12: broken YAML: ", "(the byte 0xE9, number 28 of the line, is not UTF-8: save the file as UTF-8"}, true,
		},
		{
			"a picture", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00",
			[]string{"policy.yaml:1: broken YAML: ", "(this is not a text, but a picture, an archive or another binary file)"}, true,
		},
		{
			"a policy that no cluster stores", ruled("p", requiresTeam) + strings.Repeat("  - name: r\n    match: {any: [{resources: {kinds: [Pod]}}]}\n    validate: {message: m, pattern: {metadata: {labels: {team: '?*'}}}}\n", 1) +
				"    # large\n" + strings.Replace("    context: [{name: a, variable: {value: X}}]\n", "X", strings.Repeat("x", 1<<21), 1),
			[]string{"policy.yaml:4: warning: metadata.name: the policy has 2.0 MiB, and a cluster stores objects of at most 1.5 MiB (split it into several policies)"}, true,
		},
		{
			"a rule beside the list of rules", strings.Replace(ruled("p", requiresTeam), "spec:\n", "spec:\n  validate: {message: m}\n", 1),
			[]string{`unknown field "validate" (it belongs under rules[]: indent it below a rule)`}, true,
		},
		{
			"a pattern one level too high", ruled("p", "    pattern:\n      metadata: {labels: {team: \"?*\"}}\n"),
			[]string{`policy.yaml:12: spec.rules[0].pattern: unknown field "pattern" (it belongs under validate: indent it below that field)`}, true,
		},
		{
			"a resource instead of a kind", strings.Replace(ruled("p", requiresTeam), "[Pod]", "[pods]", 1),
			[]string{"policy.yaml:11: warning: spec.rules[0].match.any[0].resources.kinds[0]: there is no kind pods in Kubernetes (did you mean Pod?)"}, false,
		},
		{
			"the plural of a kind", strings.Replace(ruled("p", requiresTeam), "[Pod]", "[networkpolicies]", 1),
			[]string{"(did you mean NetworkPolicy?)"}, false,
		},
		{
			"a regular expression", ruled("p", denied(`{key: "{{ regex_match('[a', request.object.metadata.name) }}", operator: Equals, value: true}`)),
			[]string{"policy.yaml:17: warning: spec.rules[0].validate.deny.conditions.any[0].key: regex_match: error parsing regexp: missing closing ]: `[a`: evaluating it is an error (correct it: the syntax is that of RE2"}, false,
		},
		{
			"a variable that is not closed", ruled("p", strings.Replace(requiresTeam, "?*", "{{ request.namespace", 1)),
			[]string{`warning: spec.rules[0].validate.pattern.metadata.labels.team: the variable in "{{ request.namespace" is not closed, so that it stays text (write }} behind the variable`}, false,
		},
		{
			"two policies of one name", ruled("p", requiresTeam) + "---\n" + ruled("p", requiresTeam),
			[]string{"policy.yaml:17: warning: metadata.name: a ClusterPolicy with this name already exists, at policy.yaml:4 (in a cluster the later one replaces the earlier one"}, false,
		},
		{"an empty file", "", []string{"policy.yaml: warning: there is no YAML document in it (nothing of it is used"}, false},
		{
			"a path that no API server serves", ruled("p", "    context:\n    - name: hosts\n      apiCall: {urlPath: /apis/route.openshift.io/v1/Route}\n"+denied(`{key: "{{ hosts }}", operator: Equals, value: 1}`)),
			[]string{"policy.yaml:14: warning: spec.rules[0].context[0].apiCall.urlPath: ", `"Route" is not the name of a resource (write the plural name of the resource`}, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) { mistaken(t, c.policy, c.want, c.fails) })
	}
}

// mistaken checks that apply and lint print all of want on one line about the policy, and fail if they should.
func mistaken(t *testing.T, policy string, want []string, fails bool) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "policy.yaml", policy)
	write(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\nspec: {containers: [{name: c, image: i}]}\n")
	_, applied, code := runIn(t, "apply", "policy.yaml", "-r", "pod.yaml")
	if fails && code != 1 {
		t.Errorf("apply ends with %d", code)
	}
	found, _, code := runIn(t, "lint", "policy.yaml")
	if fails != (code == 1) {
		t.Errorf("lint ends with %d", code)
	}
	for command, text := range map[string]string{"apply": applied, "lint": found} {
		if !oneLineHas(text, want) {
			t.Errorf("%s prints\n%s, want on one line %q", command, text, want)
		}
	}
}

// inCEL returns a ValidatingPolicy for Pods with these fields.
func inCEL(fields string) string {
	return "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata:\n  name: p\nspec:\n  matchConstraints:\n    resourceRules:\n" +
		"    - {apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}\n" + fields
}

// The same mistakes in CEL policies, if these can have them.
func TestMistakesInCEL(t *testing.T) {
	const fine = "  validations:\n  - {expression: has(object.spec), message: m}\n"
	for _, c := range []struct {
		name, policy string
		want         []string
		fails        bool
	}{
		{"a value without quotes", inCEL("  validations:\n  - expression: {{ x }}\n"), []string{`policy.yaml:10: `, `quote`}, true},
		{"the kind in other letters", strings.Replace(inCEL(fine), "ValidatingPolicy", "Validatingpolicy", 1), []string{"policy.yaml:2: ", "(did you mean ValidatingPolicy?)"}, true},
		{"a bracket that is not closed", inCEL("  validations:\n  - expression: object.spec.containers[.image\n"), []string{`policy.yaml:10: `, "Syntax error"}, true},
		{"a misspelt variable", inCEL("  variables:\n  - {name: allowed, expression: \"['a']\"}\n  validations:\n  - expression: object.metadata.name in variables.alowed\n"), []string{`policy.yaml:12: `, "undefined field 'alowed'"}, true},
		{"Latin-1", strings.Replace(inCEL(fine), "message: m", "message: caf\xe9", 1), []string{"policy.yaml:10: broken YAML: ", "the byte 0xE9"}, true},
		{"an expression one level too high", inCEL("  expression: has(object.spec)\n"), []string{`policy.yaml:9: spec.expression: unknown field "expression" (it belongs under validations`}, true},
		{"a misspelt field", inCEL("  validations:\n  - {expresion: has(object.spec)}\n"), []string{`unknown field "expresion" (did you mean "expression"?)`}, true},
		{"a kind instead of a controller", strings.Replace(inCEL(fine), "spec:", "spec:\n  autogen: {podControllers: {controllers: [Deployment]}}", 1), []string{"policy.yaml:6: warning: ", `nothing is generated for "Deployment" (did you mean deployments?)`}, false},
		{"a kind instead of a resource", strings.Replace(inCEL(fine), "[pods]", "[Pod]", 1), []string{"policy.yaml:8: warning: ", "there is no resource Pod: resources have small letters (did you mean pods?)"}, false},
		{"an operation in small letters", strings.Replace(inCEL(fine), "[CREATE]", "[create]", 1), []string{"policy.yaml:8: ", "no request has the operation create (did you mean CREATE?)"}, true},
		{"an unknown action", inCEL("  validationActions: [Enforce]\n" + fine), []string{"policy.yaml:9: ", "Enforce", "Deny"}, true},
		{"a regular expression", inCEL("  validations:\n  - expression: object.metadata.name.matches('[a')\n"), []string{"policy.yaml:10: ", "invalid matches argument"}, true},
		{"two policies of one name", inCEL(fine) + "---\n" + inCEL(fine), []string{"warning: metadata.name: a ValidatingPolicy with this name already exists, at policy.yaml:4"}, false},
	} {
		t.Run(c.name, func(t *testing.T) { mistaken(t, c.policy, c.want, c.fails) })
	}
}

// For an unknown value of a flag, the error lists the valid values.
func TestUnknownWordsInFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "policy.yaml", ruled("p", requiresTeam))
	write(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
	write(t, "reports.yaml", "apiVersion: wgpolicyk8s.io/v1alpha2\nkind: PolicyReport\nmetadata: {name: r, namespace: d}\n")
	write(t, "key.pub", "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEFfZFVAb94xYJV5myhHmC5vIhbDzo\nPghZDonArbylW5AvFinV5hTAqX0KmVDhdnSy0+zNSrGcRG65CFVHD1EWxg==\n-----END PUBLIC KEY-----\n")
	write(t, "kyverno-test.yaml", "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: t}\npolicies: [policy.yaml]\nresources: [pod.yaml]\nresults: [{policy: p, rule: r, resources: [p], kind: Pod, result: fail}]\n")
	for args, known := range map[string]string{
		"apply policy.yaml -r pod.yaml --output-format jsn":                                 "json or yaml",
		"test . --output-format jsn":                                                        "json, yaml, markdown, junit",
		"test . -o jsn":                                                                     "json, yaml, markdown, junit",
		"lint policy.yaml -o jsn":                                                           "json or sarif",
		"explain policy.yaml --resource pod.yaml -o jsn":                                    "json",
		"explain policy.yaml --resource pod.yaml --operation MAKE":                          "CREATE, UPDATE, DELETE, CONNECT",
		"version -o jsn":                                                                    "json or yaml",
		"report -f reports.yaml -o jsn":                                                     "table, json, csv, html",
		"report -f reports.yaml --severity hight":                                           "critical, high, medium, low, info, none",
		"report -f reports.yaml --fail-on failed":                                           "fail",
		"report -f reports.yaml --result failed":                                            "fail, error, warn, skip, pass",
		"rollout p -f reports.yaml -o jsn":                                                  "table, json",
		"impact policy.yaml --cluster -o jsn":                                               "table, json",
		"impact policy.yaml --cluster --fail-on denied":                                     "refused",
		"impact policy.yaml --cluster --fail-on refused=many":                               "number",
		"decisions -f reports.yaml -o jsn":                                                  "table, json, csv",
		"decisions -f reports.yaml --verdict refuse":                                        "refused",
		"why x -f reports.yaml -o jsn":                                                      "json",
		"preflight -o jsn":                                                                  "json",
		"cleanup preview p -o jsn":                                                          "json",
		"verify a:1 --key key.pub -o jsn":                                                   "table",
		"verify a:1 --key key.pub --format cosine":                                          "Cosign",
		"verify a:1 --key key.pub --signature-algorithm md5":                                "sha256",
		"create cluster-role r --controllers none --api-groups a --verbs get --resources b": "background-controller",
	} {
		out, errs, code := runIn(t, strings.Fields(args)...)
		words := strings.Fields(args)
		unknown := words[len(words)-1]
		if strings.HasPrefix(args, "create") {
			unknown = "none"
		}
		switch unknown = strings.TrimPrefix(unknown, "refused="); words[0] {
		case "test":
			unknown = "invalid format" // Kyverno's text, which does not repeat the value
		}
		if code == 0 || !strings.Contains(errs, unknown) || !strings.Contains(errs, known) {
			t.Errorf("%s: exit code %d, want %q and %q:\n%s%s", args, code, unknown, known, out, errs)
		}
	}
}

// A policy without a mistake gets no warning.
func TestNoMistake(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "policy.yaml", ruled("p", strings.Replace(requiresTeam, "?*", "{{ regex_replace_all('[a-z]', request.namespace, '') }} {{ {a: {b: request.namespace}}.a.b }}", 1)))
	write(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\n")
	if _, errs, _ := runIn(t, "apply", "policy.yaml", "-r", "pod.yaml"); strings.Contains(errs, "warning") {
		t.Error(errs)
	}
	if out, _, code := runIn(t, "lint", "policy.yaml"); code != 0 || !strings.Contains(out, "0 errors, 0 warnings") {
		t.Error(out)
	}
}

// Mistakes in arguments and in tests.
func TestMistakesInArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "policy.yaml", ruled("p", requiresTeam))
	write(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
	write(t, "old/kyverno-test.yaml", "name: old\npolicies: [policy.yaml]\nresources: [pod.yaml]\nresults: [{policy: p, rule: r, resource: p, kind: Pod, status: fail}]\n")
	for _, c := range []struct{ args, want string }{
		{"apply https://raw.githubusercontent.com/o/r/main/policy.yaml -r pod.yaml", "this is the URL of a file, and policies are read from git repositories: download the file and name it, or write https://github.com/o/r/BRANCH"},
		{"apply https://github.com/o/r/blob/main/policy.yaml -r pod.yaml", "this is the URL of a file"},
		{"apply policy.yaml -r pod.yaml --output-format jsn", "Error: invalid --output-format \"jsn\", expected json or yaml"},
		{"test old", "uses a deprecated schema — please migrate to the latest format\n(`ephor fix test old/kyverno-test.yaml --save` does that)"},
	} {
		out, errs, code := runIn(t, strings.Fields(c.args)...)
		if strings.HasPrefix(c.args, "apply https") {
			code = 1 // the policies that could be read are applied
		}
		if code != 1 || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d:\n%s%s", c.args, code, out, errs)
		}
	}
}

// The exit codes of verify distinguish mistakes from a negative answer.
func TestExitCodesOfVerify(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "hello.txt", "hello\n")
	write(t, "key.pub", "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEFfZFVAb94xYJV5myhHmC5vIhbDzo\nPghZDonArbylW5AvFinV5hTAqX0KmVDhdnSy0+zNSrGcRG65CFVHD1EWxg==\n-----END PUBLIC KEY-----\n")
	const bundle = "verify --bundle hello.txt --artifact hello.txt "
	for args, want := range map[string]int{
		bundle + "--key key.pub": 1, bundle + "--key hello.txt": 2, bundle + "--key none.pub": 2, bundle: 2, bundle + "--key key.pub --trusted-root key.pub": 2,
		bundle + "--key key.pub --unknown": 2, bundle + "--key key.pub --output xml": 2, "verify a b --key key.pub": 2, "verify": 2,
		"verify --bundle none --artifact hello.txt --key key.pub": 2, "verify --bundle hello.txt --artifact none --key key.pub": 2,
		"verify 127.0.0.1:1/app:1 --key key.pub": 1,
	} {
		if out, errs, code := runIn(t, strings.Fields(args)...); code != want {
			t.Errorf("%s: exit code %d, want %d:\n%s%s", args, code, want, out, errs)
		}
	}
}

// A pipe gets no colours. TestColors of apply and testrun hold what a terminal gets.
func TestNoColor(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "policy.yaml", ruled("p", requiresTeam))
	write(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
	write(t, "kyverno-test.yaml", "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\npolicies: [policy.yaml]\nresources: [pod.yaml]\nresults: [{policy: p, rule: r, resources: [p], result: pass}]\n")
	for _, args := range []string{"apply policy.yaml -r pod.yaml --table", "test .", "test . --fail-only --detailed-results"} {
		if out, _, _ := runIn(t, strings.Fields(args)...); !strings.Contains(out, "│ POLICY") || strings.Contains(out, "\x1b[") {
			t.Errorf("%s: %q", args, out)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func runIn(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	root := NewRoot()
	root.SetOut(&out)
	root.SetErr(&errs)
	code = Main(append([]string{"ephor"}, args...), root)
	return out.String(), errs.String(), code
}

func oneLineHas(text string, parts []string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}
