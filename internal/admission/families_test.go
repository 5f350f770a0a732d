package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/value"
)

func validatingPolicy(name, actions, validation string) string {
	return `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: ` + name + `}
spec:
  validationActions: ` + actions + `
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  validations:
  - ` + validation
}

const needsTeam = `{expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", message: a team is needed}`

// The policies in the path are evaluated, and their actions determine the answer.
func TestValidatingPolicies(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"),
		validatingPolicy("deny", "[Deny]", needsTeam),
		validatingPolicy("default", "[]", needsTeam),
		validatingPolicy("audit", "[Audit]", needsTeam),
		validatingPolicy("warn", "[Warn]", needsTeam),
		validatingPolicy("both", "[Deny, Warn]", needsTeam),
		validatingPolicy("broken", "[Deny]", `{expression: "object.data.missing == 'x'"}`),
		validatingPolicy("broken-audit", "[Audit, Warn]", `{expression: "object.data.missing == 'x'"}`),
		validatingPolicy("silent", "[Deny]", `{expression: "false"}`),
	)
	for path, want := range map[string]string{
		"/vpol/deny":              "denied: Policy deny failed: a team is needed",
		"/vpol/default":           "denied: Policy default failed: a team is needed",
		"/vpol/audit":             "allowed",
		"/vpol/warn":              "allowed, warnings Policy warn failed: a team is needed",
		"/vpol/both":              "denied: Policy both failed: a team is needed, warnings Policy both failed: a team is needed",
		"/vpol/deny/warn":         "denied: Policy deny failed: a team is needed, warnings Policy warn failed: a team is needed",
		"/vpol/deny/silent":       "denied: Policy deny failed: a team is needed; Policy silent failed: CEL expression validation failed at index 0",
		"/vpol/broken":            "denied: Policy broken error: error: no such key: data",
		"/vpol/broken-audit":      "allowed, warnings Policy broken-audit error: error: no such key: data",
		"/vpol":                   "allowed",
		"/vpol/gone":              "allowed",
		"/nvpol/deny":             "allowed",
		"/validate/fail":          "classic",
		"/vpol/deny/gone/default": "denied: Policy default failed: a team is needed; Policy deny failed: a team is needed",
	} {
		_, res := postReview(t, srv, path, configMap(""))
		got := "allowed"
		if !res.Allowed {
			got = "denied: " + res.Result.Message
		}
		if len(res.Warnings) > 0 {
			got += ", warnings " + strings.Join(res.Warnings, "; ")
		}
		if want == "classic" {
			if res.Allowed || strings.Contains(got, "Policy ") {
				t.Errorf("%s: %s", path, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", path, got, want)
		}
	}
	if _, res := postReview(t, srv, "/vpol/deny/both/warn", configMap(team)); !res.Allowed || len(res.Warnings) > 0 {
		t.Errorf("a good object: %+v", res)
	}
	dry := func(q *admissionv1.AdmissionRequest) { on := true; q.DryRun = &on }
	if _, res := postReview(t, srv, "/vpol/deny", configMap("", dry)); res.Allowed {
		t.Error("a dry run is allowed")
	}
}

// A namespaced policy is evaluated for requests in its namespace only, by its bare name.
func TestNamespacedValidatingPolicies(t *testing.T) {
	policy := strings.Replace(strings.Replace(validatingPolicy("deny", "[Deny]", needsTeam), "kind: V", "kind: NamespacedV", 1), "{name: deny}", "{name: deny, namespace: shop}", 1)
	srv, _ := setup(t, fakeCluster{}, nil, policy, strings.Replace(policy, "shop", "other", 1))
	if _, res := postReview(t, srv, "/nvpol/deny", configMap("")); res.Allowed || res.Result.Message != "Policy deny failed: a team is needed" {
		t.Errorf("%+v", res)
	}
	if _, res := postReview(t, srv, "/vpol/deny", configMap("")); !res.Allowed {
		t.Errorf("%+v", res)
	}
	elsewhere := func(q *admissionv1.AdmissionRequest) {
		q.Namespace = "third"
		q.Object.Raw = []byte(strings.Replace(string(q.Object.Raw), "shop", "third", 1))
	}
	if _, res := postReview(t, srv, "/nvpol/deny", configMap("", elsewhere)); !res.Allowed {
		t.Errorf("another namespace: %+v", res)
	}
}

// Mistakes of a policy deny it with the API server's texts for field errors, one alone or all in a list, and each is a warning.
func TestReviewOfValidatingPolicies(t *testing.T) {
	const undeclared = "spec.validations[0].expression: Invalid value: \"foo\": ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^"
	const required = "spec.matchConstraints: Required value: a matchConstraints with at least one resource rule is required"
	const rules = "matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}"
	for _, c := range []struct {
		name, spec, message string
		warnings            int
	}{
		{"good", rules + ", validations: [{expression: 'true'}]", "", 0},
		{"no rules", "validations: [{expression: 'true'}]", required, 1},
		{"no rules in them", "matchConstraints: {}, validations: [{expression: 'true'}]", required, 1},
		{"an expression", rules + ", validations: [{expression: foo}]", undeclared, 1},
		{"all at once", "validations: [{expression: foo}]", "[" + required + ", " + undeclared + "]", 2},
		{"a type", rules + ", validations: [{expression: '1'}]", "spec.validations[0].expression: Invalid value: \"1\": output is expected to be of type bool", 1},
	} {
		srv, _ := setup(t, fakeCluster{kinds: map[string]string{"deployments": "Deployment"}}, nil)
		text := "{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: p}, spec: {" + c.spec + "}}"
		code, res := postReview(t, srv, "/policyvalidate", reviewOf(t, text, "", "jane"))
		if code != 200 || res.Allowed != (c.message == "") {
			t.Errorf("%s: %d %+v", c.name, code, res)
			continue
		}
		if c.message != "" && res.Result.Message != c.message {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, res.Result.Message, c.message)
		}
		if len(res.Warnings) != c.warnings {
			t.Errorf("%s: %q", c.name, res.Warnings)
		}
	}
}

// Exceptions of policies.kyverno.io have their own review path, for every version. The answer has all mistakes at once, with the API
// server's texts, and warnings for an exception without effect.
func TestReviewOfTheirExceptions(t *testing.T) {
	const ref = "policyRefs: [{name: p, kind: ValidatingPolicy}]"
	everywhere := policyreview.Exceptions{Enabled: true, Namespace: "*"}
	for _, c := range []struct {
		name, spec string
		settings   policyreview.Exceptions
		message    string // the beginning of the message of a refusal
		warnings   []string
	}{
		{"good", ref + ", matchConditions: [{name: c, expression: \"object.metadata.name == 'a'\"}]", everywhere, "", nil},
		{"switched off", ref, policyreview.Exceptions{}, "", []string{"PolicyException resources would not be processed until it is enabled."}},
		{"no namespace", ref, policyreview.Exceptions{Enabled: true}, "", []string{"The exceptionNamespace flag is not set"}},
		{"another namespace", ref, policyreview.Exceptions{Enabled: true, Namespace: "ops"}, "", []string{"PolicyException resource namespace must match the defined namespace."}},
		{"expired", ref + ", expiresAt: '1969-01-02T03:04:05Z'", everywhere, "", []string{"the exception has no effect: it expired at 1969-01-02T03:04:05Z"}},
		{"a kind of no policy", "policyRefs: [{name: p, kind: ValidationPolicy}, {name: p, kind: ClusterPolicy}]", everywhere, "", []string{
			`the exception is for no policy: policies.kyverno.io has no kind "ValidationPolicy"`, `the exception is for no policy: policies.kyverno.io has no kind "ClusterPolicy"`,
		}},
		{"no policies", "policyRefs: []", everywhere, `spec.policyRefs: Invalid value: "": must specify at least one policy ref`, nil},
		{"nameless", "policyRefs: [{name: '', kind: ''}]", everywhere, `[spec.policyRefs[0].name: Invalid value: "": must specify policy name, spec.policyRefs[0].kind: Invalid value: "": must specify policy kind]`, nil},
		{"an expression", ref + ", matchConditions: [{name: c, expression: foo()}]", everywhere, `spec.matchConditions[0].expression: Invalid value: "foo()": ERROR: `, nil},
		{"a library of policies", ref + ", matchConditions: [{name: c, expression: \"http.Get('http://a').ok\"}]", everywhere, `spec.matchConditions[0].expression: Invalid value: "http.Get('http://a').ok": ERROR: `, nil},
		{"a type", ref + ", matchConditions: [{name: c, expression: '1'}]", everywhere, `spec.matchConditions[0].expression: Invalid value: "1": output is expected to be of type bool`, nil},
		{
			"names of conditions, all at once", ref + ", matchConditions: [{name: c, expression: 'true'}, {name: c, expression: 'true'}, {name: '', expression: ''}, {name: '-', expression: 'true'}]", everywhere,
			`[spec.matchConditions[1].name: Duplicate value: "c", spec.matchConditions[2].name: Required value, spec.matchConditions[2].expression: Required value, spec.matchConditions[3].name: Invalid value: "-": `, nil,
		},
		{
			"too many conditions", ref + ", matchConditions: [" + strings.Repeat("{name: c, expression: 'true'}, ", 65) + "]", everywhere,
			"[spec.matchConditions: Too many: 65: must have at most 64 items, ", nil,
		},
		{"a result", ref + ", reportResult: fail", everywhere, `spec.reportResult: Unsupported value: "fail": supported values: "skip", "pass"`, nil},
	} {
		for _, version := range celpolicy.Exceptions.Versions {
			srv, _ := setup(t, fakeCluster{}, nil)
			srv.review.Exceptions = c.settings
			object := reviewOf(t, "{apiVersion: policies.kyverno.io/"+version+", kind: PolicyException, metadata: {name: e, namespace: shop}, spec: {"+c.spec+"}}", "", "jane")
			code, res := postReview(t, srv, "/celexception/validate", object)
			if code != 200 || res.Allowed != (c.message == "") || !slices.Equal(res.Warnings, c.warnings) {
				t.Errorf("%s, %s: %d %+v", c.name, version, code, res)
			} else if c.message != "" && !strings.HasPrefix(res.Result.Message, c.message) {
				t.Errorf("%s, %s:\ngot  %q\nwant %q", c.name, version, res.Result.Message, c.message)
			}
		}
	}
}

func mutatingPolicy(name, failure, value string) string {
	return `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: ` + name + `}
spec:
  failurePolicy: ` + failure + `
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data', value: {'v': ` + value + `}}]"}`
}

// Policies change the object one after the other. An error denies the request with failurePolicy Fail, and changes nothing with Ignore.
func TestMutatingPolicies(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil,
		mutatingPolicy("a", "Fail", "'one'"),
		mutatingPolicy("b", "Fail", "object.data.v + ' two'"),
		mutatingPolicy("bad", "Fail", "object.data.missing"),
		mutatingPolicy("ignored", "Ignore", "object.data.missing"),
	)
	for path, want := range map[string]string{
		"/mpol/a":         `[{"op":"add","path":"/data","value":{"v":"one"}}]`,
		"/mpol/a/b":       `[{"op":"add","path":"/data","value":{"v":"one two"}}]`,
		"/mpol/a/ignored": `[{"op":"add","path":"/data","value":{"v":"one"}}]`,
		"/mpol/ignored":   "",
		"/mpol":           "",
		"/vpol/a":         "",
		"/mpol/bad":       "denied: Resource: shop/c, Kind: ConfigMap, Errors: [Policy bad: failed to evaluate policy: ",
	} {
		_, res := postReview(t, srv, path, configMap(""))
		got := string(res.Patch)
		if !res.Allowed {
			got = "denied: " + res.Result.Message
		}
		if got != want && (!strings.HasPrefix(want, "denied") || !strings.HasPrefix(got, want)) {
			t.Errorf("%s:\ngot  %s\nwant %s", path, got, want)
		}
	}
}

// The answer has the audit annotations of evaluated policies, whatever their actions and the verdict: each value of a key once, in the
// order of the policies. Keys that the API server would reject are left out.
func TestAuditAnnotations(t *testing.T) {
	annotated := func(name, actions, expression, annotations string) string {
		return validatingPolicy(name, actions, `{expression: "`+expression+`"}`) + "\n  auditAnnotations: " + annotations + "\n"
	}
	srv, _ := setup(t, fakeCluster{}, nil, needsTeamMutation,
		annotated("deny", "[Deny]", "false", `[{key: name, valueExpression: "object.metadata.name + '!'"}, {key: a/b, valueExpression: "'never'"}]`),
		annotated("audit", "[Audit]", "false", `[{key: name, valueExpression: "'audited'"}, {key: empty, valueExpression: "''"}]`),
		annotated("again", "[Audit]", "true", `[{key: name, valueExpression: "'audited'"}]`),
		annotated("warn", "[Warn]", "false", `[{key: long, valueExpression: "'0123456789'.replace('', '`+strings.Repeat("x", 2000)+`')"}]`),
		annotated("broken", "[Deny]", "true", `[{key: broken, valueExpression: "string(object.none.name)"}]`),
		validatingPolicy("plain", "[Audit]", needsTeam),
	)
	for path, want := range map[string]string{
		"/vpol/deny":             "denied map[name:c!]",
		"/vpol/audit":            "allowed map[name:audited]",
		"/vpol/again/audit/deny": "denied map[name:c!, audited]",
		"/vpol/plain":            "allowed map[]",
		"/vpol/broken":           "denied map[]",
		"/mpol/label":            "allowed map[labelled:yes]",
	} {
		_, res := postReview(t, srv, path, configMap(""))
		got := "allowed "
		if !res.Allowed {
			got = "denied "
		}
		if got += fmt.Sprint(res.AuditAnnotations); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if _, res := postReview(t, srv, "/vpol/warn", configMap("")); len(res.AuditAnnotations["long"]) > value.MaxMessage+100 || len(res.AuditAnnotations["long"]) < 1000 {
		t.Errorf("a long annotation has %d bytes", len(res.AuditAnnotations["long"]))
	}
}

const needsTeamMutation = `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: label}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'team': 'a'}}]"}
  auditAnnotations: [{key: labelled, valueExpression: "'yes'"}]
`
