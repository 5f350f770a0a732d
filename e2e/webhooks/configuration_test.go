package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/secretpath"
	"ephor.invalid/ephor/internal/webhookconf"
)

// configure sets keys of the main ConfigMap for a test.
func configure(t *testing.T, data map[string]any) {
	t.Helper()
	var before struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(cluster.Must(t, "", "get", "configmap", "kyverno", "-n", namespace, "-o", "json")), &before); err != nil {
		t.Fatal(err)
	}
	patch := func(data map[string]any) {
		text, _ := json.Marshal(map[string]any{"data": data})
		cluster.Must(t, "", "patch", "configmap", "kyverno", "-n", namespace, "--type=merge", "-p", string(text))
	}
	back := map[string]any{}
	for k := range data {
		back[k] = nil
		if v, ok := before.Data[k]; ok {
			back[k] = v
		}
	}
	patch(data)
	t.Cleanup(func() {
		text, _ := json.Marshal(map[string]any{"data": back})
		if _, err := cluster.Kubectl(context.Background(), nil, "patch", "configmap", "kyverno", "-n", namespace, "--type=merge", "-p", string(text)); err != nil {
			t.Error(err)
		}
	})
}

// The keys of the ConfigMap apply to the shared webhooks at once. Match conditions of a policy replace the ConfigMap's.
func TestConfigMapAndMatchConditions(t *testing.T) {
	start(t)
	cluster.Apply(t, refusing("shared", "ConfigMap", ", namespaces: [default]", ""))
	cluster.Apply(t, refusing("fine", "Secret", ", namespaces: [default]", `  webhookConfiguration:
    matchConditions: [{name: not-exempt, expression: "object.metadata.name != 'exempt'"}]`))
	cluster.Apply(t, strings.NewReplacer("kind: ClusterPolicy", "kind: Policy", "{name: own}", "{name: own, namespace: default}").Replace(
		refusing("own", "ServiceAccount", "", `  webhookConfiguration:
    failurePolicy: Ignore
    timeoutSeconds: 7
    matchConditions: [{name: by-users, expression: "request.userInfo.username == 'jane'"}, {name: named, expression: "has(request.name)"}]`)))
	configure(t, map[string]any{
		"webhooks":           `{"namespaceSelector":{"matchExpressions":[{"key":"exempt","operator":"DoesNotExist"}]},"objectSelector":{"matchLabels":{"judge":"me"}}}`,
		"webhookLabels":      `{"team":"platform"}`,
		"webhookAnnotations": `{"note":"mine"}`,
		"matchConditions":    `[{"name":"not-by-name","expression":"request.name != 'skipped'"}]`,
	})
	for _, p := range []string{"shared", "fine"} {
		ready(t, "clusterpolicy", p)
	}
	ready(t, "policy", "own", "-n", "default")
	suite.Eventually(t, func() error {
		c, err := validating(t)
		if err != nil {
			return err
		}
		var got []string
		for _, w := range c.Webhooks {
			line := fmt.Sprint(w.Name, " ", secretpath.Plain(*w.ClientConfig.Service.Path), " ", *w.FailurePolicy, " ", *w.TimeoutSeconds)
			for _, m := range w.MatchConditions {
				line += " " + m.Name
			}
			line += fmt.Sprint(" ", len(w.NamespaceSelector.MatchExpressions), w.ObjectSelector.MatchLabels)
			got = append(got, line)
		}
		want := []string{
			"validate.kyverno.svc-fail /validate/fail Fail 10 not-by-name ephor.dev/policies 2 map[judge:me]",
			"validate.kyverno.svc-fail-finegrained-fine /validate/fail/finegrained/fine Fail 10 not-exempt 2 map[judge:me]",
			"validate.kyverno.svc-ignore-finegrained-default-own /validate/ignore/finegrained/default/own Ignore 10 by-users named 3 map[judge:me]",
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("webhooks:\n%s", strings.Join(got, "\n"))
		}
		if c.Labels["team"] != "platform" || c.Annotations["note"] != "mine" || c.Labels[webhookconf.ManagedLabel] != webhookconf.ManagedValue {
			return fmt.Errorf("labels %v, annotations %v", c.Labels, c.Annotations)
		}
		if len(c.OwnerReferences) != 1 || c.OwnerReferences[0].Name != "kyverno:admission-controller" {
			return fmt.Errorf("owners %v", c.OwnerReferences)
		}
		return nil
	})
	labelled := func(manifest string) string {
		return strings.Replace(manifest, "metadata: {", "metadata: {labels: {judge: me}, ", 1)
	}
	secret := func(name string) string {
		return labelled(strings.Replace(configMap("default", name), "ConfigMap", "Secret", 1))
	}
	account := labelled(strings.Replace(configMap("default", "a"), "ConfigMap", "ServiceAccount", 1))
	answers(t, labelled(configMap("default", "a")), "the policy shared says no")
	answers(t, configMap("default", "a"), "")                 // objectSelector
	answers(t, labelled(configMap("default", "skipped")), "") // the ConfigMap's condition
	answers(t, secret("a"), `webhook "validate.kyverno.svc-fail-finegrained-fine" denied the request`)
	answers(t, secret("skipped"), "the policy fine says no")
	answers(t, secret("exempt"), "")
	answers(t, account, "")
	cluster.Must(t, "", "create", "clusterrolebinding", "jane", "--clusterrole=cluster-admin", "--user=jane")
	t.Cleanup(func() { cluster.Must(t, "", "delete", "clusterrolebinding", "jane") })
	answers(t, account, "the policy own says no", "--as=jane")
	cluster.Must(t, "", "label", "namespace", "default", "exempt=yes")
	t.Cleanup(func() { cluster.Kubectl(context.Background(), nil, "label", "namespace", "default", "exempt-") })
	answers(t, labelled(configMap("default", "a")), "") // namespaceSelector
	cluster.Must(t, "", "label", "namespace", "default", "exempt-")
}

// A change by another client is reverted, and the log reports what changed.
func TestConfigurationIsRestored(t *testing.T) {
	r := start(t)
	cluster.Apply(t, refusing("restored", "ConfigMap", ", namespaces: [default]", ""))
	ready(t, "clusterpolicy", "restored")
	answers(t, configMap("default", "a"), "the policy restored says no")
	intact := func() error {
		c, err := validating(t)
		switch {
		case err != nil:
			return err
		case len(c.Webhooks) != 1 || *c.Webhooks[0].FailurePolicy != admissionv1.Fail || c.Labels["mine"] != "" || len(c.OwnerReferences) != 1 || c.Labels[webhookconf.ManagedLabel] == "":
			return fmt.Errorf("%d webhooks, labels %v, owners %v", len(c.Webhooks), c.Labels, c.OwnerReferences)
		}
		return nil
	}
	for _, c := range []struct {
		kubectl []string
		log     string
	}{
		{[]string{"patch", "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`}, "another client changed webhook validate.kyverno.svc-fail"},
		{[]string{"patch", "--type=json", "-p", `[{"op":"remove","path":"/webhooks/0"}]`}, "webhook validate.kyverno.svc-fail (missing)"},
		{[]string{"patch", "--type=json", "-p", `[{"op":"remove","path":"/metadata/ownerReferences"}]`}, "another client changed owners"},
		{[]string{"label", "mine=yes"}, "another client changed labels"},
		{[]string{"delete"}, "it was deleted"},
	} {
		cluster.Must(t, "", slices.Insert(slices.Clone(c.kubectl), 1, "validatingwebhookconfiguration", webhookconf.ResourceValidating)...)
		suite.Eventually(t, intact)
		suite.Says(t, r, "restored webhook configuration", webhookconf.ResourceValidating, c.log)
	}
	answers(t, configMap("default", "a"), "the policy restored says no")
}

// A policy that names one version of a kind receives requests for all versions, which the API server converts.
func TestEveryVersion(t *testing.T) {
	start(t)
	cluster.Apply(t, refusing("versions", "autoscaling/v2/HorizontalPodAutoscaler", "", ""))
	ready(t, "clusterpolicy", "versions")
	for _, version := range []string{"v1", "v2"} {
		answers(t, "apiVersion: autoscaling/"+version+"\nkind: HorizontalPodAutoscaler\nmetadata: {name: a, namespace: default}\n"+
			"spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}}\n", "the policy versions says no")
	}
}

// The API server calls the webhooks only if a policy can apply: without a replica, and with every policy failing closed, only objects that
// policies match are denied. Wildcards do not include objects that nodes and Ephor itself need to restart.
func TestRequestsWithoutReplicas(t *testing.T) {
	r := start(t)
	cluster.Namespace(t, "judged")
	node := "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n"
	lease := func(ns string) string {
		return "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: l, namespace: " + ns + "}\n"
	}
	const unanswered = "failed calling webhook"

	// Conditions that are derived from the policies.
	names, labels := refusing("names", "ConfigMap", ", names: [guarded], namespaces: [judged]", ""), refusing("labels", "ConfigMap", ", selector: {matchLabels: {guarded: \"yes\"}}", "")
	cluster.Must(t, names, "apply", "-f", "-")
	cluster.Must(t, labels, "apply", "-f", "-")
	ready(t, "clusterpolicy", "names")
	ready(t, "clusterpolicy", "labels")
	answers(t, configMap("judged", "guarded"), "the policy names says no")
	cluster.Must(t, configMap("judged", "free"), "create", "-f", "-")
	r.Kill()
	answers(t, configMap("judged", "guarded"), unanswered)
	answers(t, strings.Replace(configMap("judged", "a"), "{name", "{labels: {guarded: \"yes\"}, name", 1), unanswered)
	for _, free := range []string{configMap("judged", "other"), configMap("default", "guarded")} {
		if err := create(t, free); err != nil {
			t.Errorf("a policy cannot apply, and yet it was asked about: %v", err)
		}
	}
	cluster.Must(t, "", "delete", "configmap", "free", "-n", "judged")
	cluster.Must(t, names, "delete", "-f", "-") // a locked-out user can still correct the policies
	cluster.Must(t, labels, "delete", "-f", "-")

	// Wildcards.
	r = start(t)
	all := refusing("all", `"*"`, "", "")
	out := cluster.Must(t, all, "apply", "-f", "-")
	if !strings.Contains(out, "policy") {
		t.Error(out)
	}
	ready(t, "clusterpolicy", "all")
	answers(t, configMap("judged", "a"), "the policy all says no")
	r.Kill()
	answers(t, configMap("judged", "a"), unanswered)
	for _, free := range []string{node, lease("judged"), configMap("kube-system", "a"), configMap(namespace, "a"), lease("kube-node-lease")} {
		if err := create(t, free); err != nil {
			t.Errorf("it must come through while nobody answers: %v", err)
		}
	}
	cluster.Must(t, all, "delete", "-f", "-")

	// An explicitly named kind is included, at the author's risk.
	r = start(t)
	named := refusing("named", "Node", "", "")
	if _, err := cluster.Kubectl(t.Context(), []byte(named), "apply", "-f", "-", "--warnings-as-errors"); err == nil || !strings.Contains(err.Error(), "every request for Node is refused") {
		t.Errorf("no warning of the risk: %v", err)
	}
	ready(t, "clusterpolicy", "named")
	answers(t, node, "") // the ConfigMap's resourceFilters exclude nodes from policies, but not from the webhook
	r.Kill()
	answers(t, node, unanswered)
	cluster.Must(t, named, "delete", "-f", "-")
}

// --autoUpdateWebhooks=false: the webhooks cover every request from the start, and only their certificate authority and paths change.
func TestStaticWebhooks(t *testing.T) {
	start(t, "--autoUpdateWebhooks=false")
	cluster.Apply(t, refusing("static", "ConfigMap", ", namespaces: [default]", ""))
	ready(t, "clusterpolicy", "static")
	answers(t, configMap("default", "a"), "the policy static says no")
	c, err := validating(t)
	if err != nil || len(c.Webhooks) != 2 || c.Webhooks[0].Rules[0].Resources[0] != "*/*" {
		t.Fatal(c.Webhooks, err)
	}
	cluster.Must(t, "", "patch", "validatingwebhookconfiguration", c.Name, "--type=json", "-p",
		`[{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["secrets"]},{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"`+"Cg=="+`"},`+
			`{"op":"replace","path":"/webhooks/0/clientConfig/service/path","value":"/validate/fail"},{"op":"replace","path":"/webhooks/1/name","value":"mine.example.com"}]`)
	suite.Eventually(t, func() error {
		now, err := validating(t)
		if err != nil {
			return err
		}
		if got := now.Webhooks[0]; got.Rules[0].Resources[0] != "secrets" || string(got.ClientConfig.CABundle) != string(c.Webhooks[0].ClientConfig.CABundle) {
			return fmt.Errorf("%v, CA of %d bytes", got.Rules, len(got.ClientConfig.CABundle))
		}
		for _, w := range now.Webhooks { // also of one with another name
			if path, err := cluster.Ephor.WebhookPath(t.Context(), devcluster.Admission, secretpath.Plain(*w.ClientConfig.Service.Path)); err != nil || *w.ClientConfig.Service.Path != path {
				return fmt.Errorf("%s asks at a path that is not in force: %v", w.Name, err)
			}
		}
		return nil
	})
	answers(t, configMap("default", "a"), "")
}

// Without the ClusterRole that owns them, the configurations are deleted, and none is written; with it they are restored. The owner is a
// role without another purpose, since the controller could do nothing without its own role.
func TestOwner(t *testing.T) {
	const role = "kyverno:admission-controller"
	cluster.Must(t, "", "label", "clusterrole", role, webhookconf.OwnerLabel+"-")
	t.Cleanup(func() {
		if _, err := cluster.Kubectl(context.Background(), nil, "label", "clusterrole", role, webhookconf.OwnerLabel+"=admission-controller"); err != nil {
			t.Error(err)
		}
	})
	r := start(t)
	cluster.Apply(t, refusing("owned", "ConfigMap", ", namespaces: [default]", ""))
	ready(t, "clusterpolicy", "owned")
	answers(t, configMap("default", "a"), "the policy owned says no")
	t.Cleanup(func() { // also after a failed test
		if err := client.IgnoreAlreadyExists(api.Create(context.Background(), owner())); err != nil {
			t.Error(err)
		}
	})
	if err := api.Delete(t.Context(), owner()); err != nil {
		t.Fatal(err)
	}
	gone := func() error {
		if left := stored(t); len(left) > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	}
	suite.Eventually(t, gone)
	suite.Says(t, r, "no webhook configurations are written")
	answers(t, configMap("default", "a"), "")
	cluster.Must(t, "", "label", "clusterpolicy", "owned", "touched=yes") // a changed policy, but nothing is written
	cluster.Must(t, "", "wait", "--for=condition=Ready=false", "clusterpolicy", "owned")
	if err := gone(); err != nil {
		t.Error(err)
	}
	if err := api.Create(t.Context(), owner()); err != nil {
		t.Fatal(err)
	}
	answers(t, configMap("default", "a"), "the policy owned says no")
}

// After the namespace is deleted no configuration is left.
func TestNamespaceGoes(t *testing.T) {
	r := start(t)
	cluster.Apply(t, refusing("left", "ConfigMap, Namespace", "", ""))
	ready(t, "clusterpolicy", "left")
	answers(t, configMap("default", "a"), "the policy left says no")
	t.Cleanup(func() { // other tests need the namespace
		cluster.Must(t, "", "wait", "--for=delete", "namespace", namespace)
		if err := cluster.Install(context.Background(), ""); err != nil {
			t.Error(err)
		}
	})
	cluster.Must(t, "", "delete", "namespace", namespace, "--wait=false")
	suite.Eventually(t, func() error {
		if left := stored(t); len(left) > 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
	suite.Says(t, r, "our namespace is being deleted")
	answers(t, configMap("default", "a"), "")
	r.Kill()
	if err := client.IgnoreNotFound(api.Delete(t.Context(), owner())); err != nil {
		t.Error(err)
	}
}
