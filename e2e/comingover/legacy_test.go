package comingover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// legacy are the numbers of classic policies of each kind.
const legacy = 20

// legacyPolicies returns policies that deny the label deny-N of ConfigMaps, add the label changed-N to those with change-N, and generate the
// ConfigMap made-N for ServiceAccounts with the label make.
func legacyPolicies() string {
	var b strings.Builder
	for i := range legacy {
		fmt.Fprintf(&b, `---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: deny-%[1]d}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [shop]}}]}
    validate: {failureAction: Enforce, message: the label deny-%[1]d is not allowed, pattern: {metadata: {=(labels): {X(deny-%[1]d): "?*"}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: change-%[1]d}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [shop], selector: {matchLabels: {change-%[1]d: "yes"}}}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {changed-%[1]d: "yes"}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: make-%[1]d}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ServiceAccount], namespaces: [shop], selector: {matchLabels: {make: "yes"}}}}]}
    generate: {generateExisting: true, synchronize: true, apiVersion: v1, kind: ConfigMap, namespace: shop, name: "made-%[1]d-{{ request.object.metadata.name }}", data: {data: {a: b}}}
`, i)
	}
	return b.String()
}

// labelled asks whether a ConfigMap with the label is admitted and not changed. Nothing is stored.
func (in *installation) labelled(label string) error {
	return in.labelledIn(in.t.Context(), label)
}

func (in *installation) labelledIn(ctx context.Context, label string) error {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", Namespace: "shop", Labels: map[string]string{label: "yes"}}}
	o, err := in.Client.CoreV1().ConfigMaps("shop").Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil && len(o.Labels) > 1 {
		return errors.New("it was changed")
	}
	return err
}

// wants waits until an object with the label is admitted as it is, or is not; text is a part of the reason.
func (in *installation) wants(label, text string) {
	in.t.Helper()
	suite.Until(in.t, "an object with the label "+label+": "+text, func() error {
		if err := in.labelled(label); text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
			return fmt.Errorf("%v", err)
		}
		return nil
	})
}

// version120 creates the Deployment of the admission controller with the image of Kyverno 1.20. Its Pod finds no node.
func (in *installation) version120() {
	in.t.Helper()
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: kyverno-admission-controller, namespace: kyverno, labels: {app.kubernetes.io/part-of: kyverno}},
spec: {replicas: 1, selector: {matchLabels: {a: kyverno}}, template: {metadata: {labels: {a: kyverno}}, spec: {containers: [{name: kyverno, image: "kyverno/kyverno:v1.20.0"}]}}}}`
	in.kubectl(deployment, "apply", "-f", "-")
	in.t.Cleanup(func() { in.kubectl(deployment, "delete", "-f", "-") })
}

// legacyFindings returns the objects of preflight's findings about 1.20, and the messages, by code and severity.
func (in *installation) legacyFindings() (objects, messages map[string][]string) {
	in.t.Helper()
	out, all, _ := in.ephorCommand("preflight", "-o", "json")
	var report struct {
		Findings []struct {
			Code, Severity, Message string
			Object                  struct{ Kind, Name string }
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		in.t.Fatalf("%v: %s", err, all)
	}
	objects, messages = map[string][]string{}, map[string][]string{}
	for _, f := range report.Findings {
		key := f.Severity + " " + f.Code
		objects[key] = append(objects[key], f.Object.Name)
		messages[key] = append(messages[key], f.Message)
	}
	return objects, messages
}

// A cluster of Kyverno 1.20 in which 60 classic policies are stored and nothing executes them comes to Ephor: the impact is shown before, the
// policies audit first, the policy in CEL is enforced throughout, and each policy does what it says once it is released. On the way back all of
// them are inert again, and nothing of them is lost.
func TestInertPolicies(t *testing.T) {
	in := shared(t)
	began := time.Now()
	took := func(what string) {
		t.Logf("%s after %s", what, time.Since(began).Round(100*time.Millisecond))
	}
	in.kubectl(population+legacyPolicies(), "apply", "--server-side", "--field-manager=helm", "--force-conflicts", "-f", "-")
	t.Cleanup(func() { in.kubectl(legacyPolicies(), "delete", "--ignore-not-found", "-f", "-") })
	in.version120()
	in.kubectl(`{apiVersion: v1, kind: ConfigMap, metadata: {name: violates, namespace: shop, labels: {deny-3: "yes", change-4: "yes"}}}`, "apply", "-f", "-")
	kyverno := startStandIn(t, in.Client, nil, "hard-1", hard)
	in.beside(kyverno)
	in.wants("bad-cel", "bad-cel is not allowed")
	in.wants("deny-3", "")
	if _, err := in.Try(t, "", "annotate", "clusterpolicy", "deny-3", "note=a"); err == nil || !strings.Contains(err.Error(), "no longer supported") {
		t.Errorf("a policy is changed: %v", err)
	}
	policies := func() string {
		return in.kubectl("", "get", "clusterpolicies", "-o", `jsonpath={range .items[*]}{.metadata.uid} {.metadata.generation} {.metadata.name}{"\n"}{end}`)
	}
	before := policies()

	took("begin")
	objects, messages := in.legacyFindings()
	took("preflight")
	if n := len(objects["stops policy-inert"]); n != 3*legacy+2 { // and the two of the population
		t.Errorf("%d policies are inert: %q", n, objects)
	}
	for _, part := range []string{"1 violate it: shop/ConfigMap/violates", "it would change 1: shop/ConfigMap/violates", "generate objects for existing triggers"} {
		if !strings.Contains(strings.Join(messages["stops policy-inert"], "\n"), part) {
			t.Errorf("preflight does not say %q:\n%s", part, strings.Join(messages["stops policy-inert"], "\n"))
		}
	}
	if len(objects["note writes-denied"]) != 1 || len(objects["unknown not-checked"]) != 0 {
		t.Errorf("%q", objects)
	}
	if out, all, code := in.ephorCommand("rollout", "--audit-first", "--dry-run"); code != 0 || !strings.Contains(out, fmt.Sprintf("nothing was changed: %d policies audit first", 3*legacy+2)) {
		t.Errorf("exit code %d: %s", code, all)
	}
	if _, all, code := in.ephorCommand("rollout", "--audit-first"); code != 0 {
		t.Fatalf("exit code %d: %s", code, all)
	}
	t.Cleanup(func() {
		in.kubectl("", "patch", "configmap", "kyverno", "-n", "kyverno", "--type=merge", "-p", `{"data":{"auditFirst":null}}`)
	})
	took("rollout --audit-first")
	if got := policies(); got != before {
		t.Errorf("policies were changed:\n%s", got)
	}
	if objects, _ := in.legacyFindings(); len(objects["stops policy-inert"]) != 0 || len(objects["note policy-inert"]) != 3*legacy+2 {
		t.Errorf("%q", objects)
	}

	// There. What the policies say is no reason to deny or change anything, before, during and after the swap.
	p := &probe{}
	for _, label := range []string{"bad-cel", "deny-3", "change-4", "fine"} {
		p.questions = append(p.questions, question{"a ConfigMap with the label " + label, label == "bad-cel", func(ctx context.Context) error { return in.labelledIn(ctx, label) }})
	}
	p.start(t)
	admission := in.Start(t, devcluster.Admission, "--webhookSecretPaths=false")
	background := in.Start(t, devcluster.Background)
	p.swap(t, func() { in.beside(); kyverno.leave(t) })
	suite.Says(t, admission, "leading", "lease=kyverno")
	suite.Says(t, background, "no longer standing by")
	in.owned("kyverno:admission-controller")
	in.kubectl("", "annotate", "clusterpolicy", "deny-3", "note=a") // syncs succeed again
	took("Ephor leads")
	p.check(t, "there")

	// Back to what they say, one by one; a policy for existing triggers acts on those that it found.
	in.kubectl(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: trigger, namespace: shop, labels: {make: "yes"}}}`, "apply", "-f", "-")
	for _, name := range []string{"deny-7", "change-8", "make-9"} {
		if _, all, code := in.ephorCommand("rollout", name, "--as-written"); code != 0 {
			t.Errorf("exit code %d: %s", code, all)
		}
	}
	for name, action := range map[string]string{"deny-7": "Enforce", "deny-6": "Audit"} {
		if out, all, _ := in.ephorCommand("rollout", name); !strings.HasPrefix(out, "Policy "+name+" ("+action+")\n") {
			t.Errorf("rollout: %s", all)
		}
	}
	in.wants("deny-7", "deny-7 is not allowed")
	in.wants("change-8", "it was changed")
	suite.Until(t, "the released policy generates", func() error {
		_, err := in.Try(t, "", "get", "configmap", "made-9-trigger", "-n", "shop")
		return err
	})
	took("three policies are released")
	if made := in.kubectl("", "get", "configmaps", "-n", "shop", "-o", "name"); strings.Count(made, "configmap/made-") != 1 {
		t.Errorf("other policies generated:\n%s", made)
	}
	if _, all, code := in.ephorCommand("rollout", "deny-7", "--as-written"); code != 1 || !strings.Contains(all, "no policy deny-7 audits first") {
		t.Errorf("exit code %d: %s", code, all)
	}
	p.check(t, "released")

	// Back: every policy is inert, and none is lost.
	again := startStandIn(t, in.Client, nil, "hard-2", hard)
	in.kubectl("", "delete", "clusterrole", "kyverno:webhook", "--ignore-not-found", "--cascade=foreground")
	in.beside(again)
	p.swap(t, func() { suite.Stop(t, background); suite.Stop(t, admission); in.beside(again) })
	in.owned("")
	in.wants("deny-7", "")
	in.wants("change-8", "")
	p.check(t, "there and back")
	if after := policies(); after != before {
		t.Errorf("the policies were\n%s\nand are\n%s", before, after)
	}
	in.kubectl("", "get", "configmap", "made-9-trigger", "-n", "shop") // what was generated stays
	again.end()
}

// In the grace form of Kyverno 1.20 classic policies are executed and denied when they change: they are enforced throughout, there and back,
// and need not audit first.
func TestGrace(t *testing.T) {
	in := shared(t)
	in.kubectl(population, "apply", "--server-side", "--field-manager=helm", "--force-conflicts", "-f", "-")
	in.version120()
	kyverno := startStandIn(t, in.Client, nil, "grace-1", grace)
	in.beside(kyverno)
	in.enforces("the stand-in enforces", true)
	in.kubectl("", "annotate", "clusterpolicy", "no-bad", "note=a") // the spec is the same
	if _, err := in.Try(t, "", "patch", "clusterpolicy", "no-bad", "--type=merge", "-p", `{"spec":{"background":true}}`); err == nil {
		t.Error("the spec of a policy is changed")
	}
	if objects, _ := in.legacyFindings(); len(objects["stops policy-inert"])+len(objects["note policy-inert"]) != 0 || len(objects["note writes-denied"]) != 1 {
		t.Errorf("%q", objects)
	}
	p := startProbe(t, in)
	admission := in.Start(t, devcluster.Admission, "--webhookSecretPaths=false")
	p.swap(t, func() { in.beside(); kyverno.leave(t) })
	suite.Says(t, admission, "leading", "lease=kyverno")
	in.owned("kyverno:admission-controller")
	in.kubectl("", "patch", "clusterpolicy", "no-bad", "--type=merge", "-p", `{"spec":{"background":true}}`)
	p.check(t, "there")
	again := startStandIn(t, in.Client, nil, "grace-2", grace)
	in.kubectl("", "delete", "clusterrole", "kyverno:webhook", "--ignore-not-found", "--cascade=foreground")
	in.beside(again)
	p.swap(t, func() { suite.Stop(t, admission); in.beside(again) })
	in.owned("")
	in.enforces("the stand-in enforces again", true)
	p.check(t, "there and back")
	again.end()
}
