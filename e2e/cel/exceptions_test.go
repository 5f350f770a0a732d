package cel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/devcluster"
)

// exempting is the only namespace whose exceptions apply (--exceptionNamespace of the controllers). It exists in all tests.
const exempting = "e2e-cel-exempt"

const exceptionFlag = "--exceptionNamespace=" + exempting

// The names of the two kinds of exceptions.
const (
	classicExceptions = "policyexceptions.kyverno.io"
	celExceptions     = "policyexceptions.policies.kyverno.io"
)

// ownedPolicies require an owner on the ConfigMaps of a namespace, as a classic policy and as a ValidatingPolicy.
func ownedPolicies(name, ns string) (classic, written string) {
	classic = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: ` + name + `}
spec:
  rules:
  - name: owner
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [` + ns + `]}}]}
    validate:
      failureAction: Enforce
      message: the classic policy asks for an owner
      pattern: {metadata: {labels: {owner: "?*"}}}
`
	written = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + ns + `}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  validations:
  - expression: "'owner' in object.metadata.?labels.orValue({})"
    message: the policy in CEL asks for an owner
`
	return classic, written
}

func configMap(ns, name string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + ", namespace: " + ns + "}}"
}

// exceptionFrom returns an exception from a ValidatingPolicy for objects of a name.
func exceptionFrom(ns, name, policy, object, more string) string {
	return `
apiVersion: policies.kyverno.io/v1
kind: PolicyException
metadata: {name: ` + name + `, namespace: ` + ns + `}
spec:
  policyRefs: [{name: ` + policy + `, kind: ValidatingPolicy}]
  matchConditions: [{name: that, expression: "object.metadata.name == '` + object + `'"}]
` + more
}

// Two exceptions of the same name, one of each group, each exempt from one policy. Deleting one does not affect the other.
func TestExceptionsOfTwoGroups(t *testing.T) {
	const ns, name = exempting, "e2e-two-groups"
	classic, written := ownedPolicies(name, ns)
	cluster.Apply(t, classic)
	apply(t, "validatingpolicy", name, written)
	object := configMap(ns, "legacy")
	denied(t, object, "the classic policy asks for an owner")
	denied(t, object, "the policy in CEL asks for an owner")

	cluster.Apply(t, `
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: legacy, namespace: `+ns+`}
spec:
  match: {any: [{resources: {kinds: [ConfigMap], names: [legacy]}}]}
  exceptions: [{policyName: `+name+`, ruleNames: [owner]}]
`)
	cluster.Apply(t, exceptionFrom(ns, "legacy", name, "legacy", ""))
	denied(t, object, "")
	denied(t, configMap(ns, "new"), "the classic policy asks for an owner")
	denied(t, configMap(ns, "new"), "the policy in CEL asks for an owner")

	must(t, "", "delete", classicExceptions, "legacy", "-n", ns)
	denied(t, object, "the classic policy asks for an owner")
	if _, err := kubectl(t, object, "create", "--dry-run=server", "-f", "-"); err == nil || strings.Contains(err.Error(), "the policy in CEL") {
		t.Errorf("without the classic exception: %v", err)
	}
	must(t, "", "delete", "clusterpolicy", name)
	denied(t, object, "")
	must(t, "", "delete", celExceptions, "legacy", "-n", ns)
	denied(t, object, "the policy in CEL asks for an owner")
}

// T25: an exception that cannot be evaluated exempts nothing and changes nothing else. Its status and an event name it. Its policy is not
// translated into one of the API server, which would deny the objects.
func TestT25ExceptionWithAnError(t *testing.T) {
	const ns, name = exempting, "e2e-broken-exception"
	_, written := ownedPolicies(name, ns)
	written = strings.Replace(written, "spec:", "spec:\n  autogen: {validatingAdmissionPolicy: {enabled: true}}", 1)
	apply(t, "validatingpolicy", name, written)
	is(t, "true ", "validatingpolicy", name, "-o", nativeStatus)
	cluster.Apply(t, strings.Replace(exceptionFrom(ns, "a-broken", name, "x", ""), "object.metadata.name", "object.metadata.annotations.nope", 1))
	cluster.Apply(t, exceptionFrom(ns, "b-good", name, "mine", ""))
	is(t, "", "validatingadmissionpolicy", "vpol-"+name, "--ignore-not-found", "-o", "name")
	denied(t, configMap(ns, "mine"), "")
	denied(t, configMap(ns, "other"), "the policy in CEL asks for an owner")
	denied(t, strings.Replace(configMap(ns, "owned"), "metadata: {", "metadata: {labels: {owner: me}, ", 1), "")
	is(t, "1 ValidatingPolicy "+name+" expression 'object.metadata.annotations.nope == 'x'' resulted in error: no such key: annotations", celExceptions, "a-broken", "-n", ns, "-o",
		"jsonpath={.status.notEvaluated.observedGeneration} {.status.notEvaluated.policy} {.status.notEvaluated.message}")
	is(t, "PolicyError", "events", "-n", ns, "--field-selector", "involvedObject.name=a-broken,reason=PolicyError", "-o", "jsonpath={.items[0].reason}")
}

// A policy reads the images of an exception, which exempts from nothing else. An exemption creates events on the policy and on the
// exception.
func TestExceptionWithImages(t *testing.T) {
	const ns, name = exempting, "e2e-images"
	apply(t, "validatingpolicy", name, `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: `+name+`}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+ns+`}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  validations:
  - expression: "object.spec.containers.all(c, c.image.startsWith('registry.example/') || exceptions.allowedImages.exists(i, c.image.startsWith(i)))"
    message: a foreign image
  - expression: "object.spec.?hostNetwork.orValue(false) == false || 'hostNetwork' in exceptions.allowedValues"
    message: the network of the host
`)
	pod := func(name, image, more string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: " + ns + "}, spec: {containers: [{name: c, image: '" + image + "'}]" + more + "}}"
	}
	denied(t, pod("agent", "docker.io/agent:1", ""), "a foreign image")
	cluster.Apply(t, exceptionFrom(ns, "images", name, "agent", "  images: [docker.io/agent]"))
	denied(t, pod("agent", "docker.io/agent:1", ""), "")
	denied(t, pod("other", "docker.io/agent:1", ""), "a foreign image")
	denied(t, pod("agent", "docker.io/agent:1", ", hostNetwork: true"), "the network of the host")
	cluster.Apply(t, exceptionFrom(ns, "values", name, "agent", "  allowedValues: [hostNetwork]"))
	denied(t, pod("agent", "docker.io/agent:1", ", hostNetwork: true"), "")

	cluster.Apply(t, exceptionFrom(ns, "whole", name, "legacy", ""))
	denied(t, pod("legacy", "docker.io/x:1", ""), "")
	cluster.Apply(t, pod("legacy", "docker.io/x:1", ""))
	eventually(t, func() error {
		out, err := kubectl(t, "", "get", "events", "-A", "-o", `jsonpath={range .items[?(@.reason=="PolicySkipped")]}{.involvedObject.apiVersion} {.involvedObject.kind} {.involvedObject.name}: {.message}{"\n"}{end}`)
		for _, want := range []string{
			"policies.kyverno.io/v1beta1 PolicyException whole: resource Pod/" + ns + "/legacy was skipped from policy rule " + name + "/exception\n",
			" ValidatingPolicy " + name + ": resource Pod/" + ns + "/legacy was skipped from rule exception due to policy exceptions " + ns + "/whole\n",
		} {
			if err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("no event %q in\n%s", want, out)
			}
		}
		return err
	})
}

// reported waits until the report about a ConfigMap has the results of a policy: the status, and the exceptions.
func reported(t *testing.T, ns, name, policy, want string) {
	t.Helper()
	eventually(t, func() error {
		out, err := kubectl(t, "", "get", "policyreports", "-n", ns, "-o", "json")
		if err != nil {
			return err
		}
		var list policyreport.PolicyReportList
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		var got []string
		for _, r := range list.Items {
			if r.Scope == nil || r.Scope.Name != name {
				continue
			}
			for _, x := range r.Results {
				if x.Policy == policy {
					got = append(got, strings.Join([]string{string(x.Result), x.Rule, x.Properties["exceptions"]}, " "))
				}
			}
		}
		if text := strings.Join(got, "; "); text != want {
			return fmt.Errorf("the report about %s says %q, want %q", name, text, want)
		}
		return nil
	})
}

// Scans report exemptions, as skip or as pass, and evaluate again after an exception is deleted or expires. A tenant's exception in another
// namespace has no effect, neither at admission nor in reports.
func TestScansAndTenantsExceptions(t *testing.T) {
	const ns, tenants, name = exempting, "e2e-cel-tenant", "e2e-scanned"
	cluster.Namespace(t, tenants)
	cluster.Start(t, devcluster.Reports, exceptionFlag)
	for _, object := range []string{"skipped", "passed", "plain", "expiring"} {
		must(t, configMap(tenants, object), "create", "-f", "-")
	}
	_, written := ownedPolicies(name, tenants)
	cluster.Apply(t, exceptionFrom(ns, "skip", name, "skipped", ""))
	cluster.Apply(t, exceptionFrom(ns, "pass", name, "passed", "  reportResult: pass"))
	cluster.Apply(t, exceptionFrom(ns, "short", name, "expiring", "  expiresAt: '2199-01-01T00:00:00Z'"))
	const ignored = "PolicyException resource namespace must match the defined namespace."
	eventually(t, func() error {
		_, err := kubectl(t, exceptionFrom(tenants, "own", name, "plain", ""), "apply", "--dry-run=server", "-f", "-", "--warnings-as-errors")
		if err == nil || !strings.Contains(err.Error(), ignored) {
			return fmt.Errorf("no warning: %v", err)
		}
		return nil
	})
	cluster.Apply(t, exceptionFrom(tenants, "own", name, "plain", ""))
	cluster.Apply(t, strings.Replace(exceptionFrom(tenants, "everything", name, "x", ""), "object.metadata.name == 'x'", "true", 1))
	apply(t, "validatingpolicy", name, written)

	reported(t, tenants, "skipped", name, "skip exception skip")
	reported(t, tenants, "passed", name, "pass exception pass")
	reported(t, tenants, "expiring", name, "skip exception short")
	reported(t, tenants, "plain", name, "fail  ")
	for _, object := range []string{"plain", "new"} {
		denied(t, configMap(tenants, object), "the policy in CEL asks for an owner")
	}

	must(t, "", "delete", celExceptions, "skip", "-n", ns)
	must(t, "", "patch", celExceptions, "short", "-n", ns, "--type=merge", "-p", `{"spec": {"expiresAt": "`+time.Now().Add(2*time.Second).UTC().Format(time.RFC3339)+`"}}`)
	reported(t, tenants, "skipped", name, "fail  ")
	reported(t, tenants, "expiring", name, "fail  ")
	reported(t, tenants, "passed", name, "pass exception pass")
}

// An exception of either kind that ends exempts nothing at any door: in the webhook, in the policy of the API server, in scans, and in the
// commands that read it from the cluster. One of the action Audit admits, and loses no result.
func TestEndAndActionOfBothKinds(t *testing.T) {
	const ns, name = exempting, "e2e-ends"
	const far, ends = "2199-01-01T00:00:00Z", "exceptions.ephor.dev/expires-at"
	classic, written := ownedPolicies(name, ns)
	written = strings.Replace(written, "spec:", "spec:\n  autogen: {validatingAdmissionPolicy: {enabled: true}}", 1)
	// The API server asks its own policies before webhooks, so the classic policy answers for objects that the other one leaves out.
	written = strings.Replace(written, "\"'owner' in object.metadata.?labels.orValue({})\"", "\"['owner', 'classic'].exists(l, l in object.metadata.?labels.orValue({}))\"", 1)
	labelled := func(object, label string) string {
		return strings.Replace(configMap(ns, object), "name: "+object, "name: "+object+", labels: {"+label+": set}", 1)
	}
	refused := map[string]string{"classic": "the classic policy asks for an owner", "x": "the policy in CEL asks for an owner"}
	exceptions := func(object, annotation string) string {
		annotated := fmt.Sprintf("namespace: %s, annotations: {%s}}", ns, annotation)
		return fmt.Sprintf(`
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: %[1]s, %[2]s
spec:
  match: {any: [{resources: {kinds: [ConfigMap], names: ["%[1]s*"]}}]}
  exceptions: [{policyName: %[3]s, ruleNames: [owner]}]
---`, object, annotated, name) + strings.NewReplacer("namespace: "+ns+"}", annotated, " == '"+object+"'", ".startsWith('"+object+"')").Replace(exceptionFrom(ns, object, name, object, ""))
	}
	cluster.Apply(t, exceptions("ending", ends+": '"+far+"'"))
	for _, object := range []string{"ending", "audited"} {
		cluster.Apply(t, configMap(ns, object))
	}
	cluster.Start(t, devcluster.Reports, exceptionFlag)
	cluster.Apply(t, classic)
	apply(t, "validatingpolicy", name, written)
	is(t, "true ", "validatingpolicy", name, "-o", nativeStatus)
	native := func(has bool) {
		t.Helper()
		eventually(t, func() error {
			out, err := kubectl(t, "", "get", "validatingadmissionpolicy", "vpol-"+name, "-o", "jsonpath={.spec}")
			if err == nil && strings.Contains(out, "'ending'") != has {
				err = fmt.Errorf("the exception is in it: %v: %s", !has, out)
			}
			return err
		})
	}
	for label, text := range refused {
		denied(t, labelled("other", label), text)
	}
	native(true)
	for label := range refused {
		denied(t, labelled("ending-new", label), "")
	}
	reportedBoth := func(object, classic, written string) {
		t.Helper()
		reported(t, ns, object, name, written+"; "+classic)
	}
	reportedBoth("ending", "skip owner ending", "skip exception ending")

	// The commands agree, on what is stored.
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policies, resource := file("policies.yaml", classic+"---"+written), file("resource.yaml", configMap(ns, "ending"))
	commands := func(want string) {
		t.Helper()
		var texts []string
		for _, kind := range []string{classicExceptions, celExceptions} {
			texts = append(texts, must(t, "", "get", kind, "ending", "-n", ns, "-o", "yaml"))
		}
		stored := file("exceptions.yaml", strings.Join(texts, "\n---\n"))
		run := func(args ...string) string {
			var out bytes.Buffer
			root := cli.NewRoot()
			root.SetOut(&out)
			root.SetErr(&out)
			cli.Main(append([]string{"ephor"}, args...), root)
			return out.String()
		}
		counts := map[string]string{"skip": "pass: 0, fail: 0, warn: 0, error: 0, skip: 2", "fail": "pass: 0, fail: 2, warn: 0, error: 0, skip: 0"}
		if out := run("apply", policies, "-r", resource, "-e", stored, "--remove-color"); !strings.Contains(out, counts[want]) {
			t.Errorf("apply says %s, want %s", out, want)
		}
		file("kyverno-test.yaml", fmt.Sprintf(`
apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata: {name: ends}
policies: [policies.yaml]
resources: [resource.yaml]
exceptions: [exceptions.yaml]
results:
- {policy: %[1]s, rule: owner, resources: [ending], kind: ConfigMap, result: %[2]s}
- {policy: %[1]s, isValidatingPolicy: true, resources: [ending], kind: ConfigMap, result: %[2]s}
`, name, want))
		if out := run("test", dir, "--remove-color"); !strings.Contains(out, "4 tests passed and 0 tests failed") { // both policies have the name, so each result is for both
			t.Errorf("test says %s, want %s", out, want)
		}
	}
	commands("skip")

	soon := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)
	for _, kind := range []string{classicExceptions, celExceptions} {
		must(t, "", "annotate", kind, "ending", "-n", ns, "--overwrite", ends+"="+soon)
	}
	for label, text := range refused {
		denied(t, labelled("ending-new", label), text)
	}
	native(false)
	reportedBoth("ending", "fail owner ", "fail  ")
	commands("fail")

	// Audit admits and reports.
	cluster.Apply(t, exceptions("audited", "exceptions.ephor.dev/action: Audit"))
	for label, text := range refused {
		denied(t, labelled("audited-new", label), "")
		denied(t, labelled("other", label), text)
	}
	reportedBoth("audited", "fail owner audited", "fail  audited")
}

// The review denies an exception with mistakes in every version, at creation and at update, and does not change stored ones.
func TestReviewOfExceptions(t *testing.T) {
	const ns = exempting
	good := exceptionFrom(ns, "reviewed", "p", "a", "")
	bad := strings.Replace(good, "object.metadata.name == 'a'", "object.metadata.name.startWith('a')", 1)
	const text = "spec.matchConditions[0].expression: Invalid value: "
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		eventually(t, func() error {
			_, err := kubectl(t, strings.Replace(bad, "io/v1\n", "io/"+version+"\n", 1), "create", "--dry-run=server", "-f", "-")
			if err == nil || !strings.Contains(err.Error(), text) {
				return fmt.Errorf("%s: %w: %w", version, errNotDenied, err)
			}
			return nil
		})
	}
	cluster.Apply(t, good)
	if _, err := kubectl(t, bad, "apply", "-f", "-"); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("the update: %v", errors.Join(errNotDenied, err))
	}
	if out := must(t, "", "get", celExceptions, "reviewed", "-n", ns, "-o", "jsonpath={.spec.matchConditions[0].expression}"); out != "object.metadata.name == 'a'" {
		t.Errorf("stored is %s", out)
	}
}
