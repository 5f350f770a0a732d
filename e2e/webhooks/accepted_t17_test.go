package webhooks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientdiscovery "k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/webhookconf"
	"ephor.invalid/ephor/internal/webhookconf/webhooktest"
)

// T17: nothing in one policy makes the API server reject what holds others.

// API servers of each version that the control plane can emulate accept the configurations for random policies, with all others in them.
func TestT17RandomPolicies(t *testing.T) {
	own, err := devcluster.Version()
	if err != nil {
		t.Fatal(err)
	}
	newest, err := kubeversion.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	versions, earliest := []string{""}, newest-3 // an API server emulates three versions before its own, since 1.34
	// With alpha features it does not start then: they wait for APIs that the emulated version does not serve.
	emulates := newest >= 34 && !strings.Contains(os.Getenv(devcluster.GatesEnv), "AllAlpha=true")
	for v := earliest; v < newest && emulates; v++ {
		versions = append(versions, v.String())
	}
	for _, version := range versions {
		t.Run("version "+version, func(t *testing.T) {
			config := cluster.Config
			if version != "" {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				plane, err := devcluster.Start(ctx, devcluster.Options{Progress: os.Stderr, APIServerFlags: []string{"--emulated-version=kube=" + version}, Env: devcluster.RareCollections})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(plane.Stop)
				config = plane.Config
			}
			scheme := runtime.NewScheme()
			if err := admissionv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			server, err := client.New(config, client.Options{Scheme: scheme})
			if err != nil {
				t.Fatal(err)
			}
			resources, err := clientdiscovery.NewDiscoveryClientForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			compatible := &discovery.Compatible{Client: resources, Now: time.Now}
			if v := compatible.Version(); version != "" && fmt.Sprintf("1.%d", v.Minor+1) != version && !(version == earliest.String() && v.Minor == uint(earliest)) {
				t.Fatalf("an API server that emulates %s is compatible with %v", version, v)
			}
			defaults, _ := settings.Parse(nil)
			conditions := &webhookconf.Conditions{Version: compatible.Version}
			known := discovery.New(resources, time.Now)
			honest := &policy.Program{}
			if err := compiled(`
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: honest}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "true"}]
`, &honest); err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(17, 33))
			for range 40 {
				data := make([]byte, 400)
				for i := range data {
					data[i] = byte(random.Uint32())
				}
				programs := []*policy.Program{honest}
				for _, object := range webhooktest.Policies(data) {
					if p, _ := compile.One(compile.Object{Value: object}); p != nil {
						programs = append(programs, p)
					}
				}
				want, ready, _, err := webhookconf.Desired(webhookconf.Input{
					Programs: programs, Settings: defaults, CABundle: nil, Resources: known, Conditions: conditions,
					Options: webhookconf.Options{Namespace: namespace, Service: "kyverno-svc", ServicePort: 443, TimeoutSeconds: 10, Derive: true},
				})
				if err != nil || ready[webhookconf.ProgramKey(honest)] != nil {
					t.Fatal(err, ready)
				}
				named := false
				for _, c := range want.Validating {
					c.GenerateName, c.Name = "t17-", ""
					err = errors.Join(err, server.Create(t.Context(), c, client.DryRunAll))
					named = named || slices.ContainsFunc(c.Webhooks, func(w admissionv1.ValidatingWebhook) bool {
						return slices.Contains(strings.Split(webhookconf.PathOf(&w.ClientConfig), "/"), honest.Name)
					})
				}
				for _, c := range want.Mutating {
					c.GenerateName, c.Name = "t17-", ""
					err = errors.Join(err, server.Create(t.Context(), c, client.DryRunAll))
				}
				if err != nil || !named {
					t.Errorf("data %x: in a configuration: %v, %v", data, named, err)
				}
			}
		})
	}
}

func compiled(text string, out **policy.Program) error {
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		return err
	}
	p, diags := compile.One(compile.Object{Value: object})
	*out = p
	return diags.Errors().Err()
}

// A namespaced policy that was stored without review has an operation that no API server knows. Its mistake is in its status, with its place,
// and all other policies are enforced.
func TestT17StoredPolicy(t *testing.T) {
	cluster.Must(t, "", "delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--selector="+webhookconf.ManagedLabel+"="+webhookconf.ManagedValue)
	cluster.Namespace(t, "tenant")
	cluster.Apply(t, `
apiVersion: policies.kyverno.io/v1
kind: NamespacedValidatingPolicy
metadata: {name: freezes, namespace: tenant}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, FOO], resources: [configmaps]}]}
  validations: [{expression: "false"}]
`)
	start(t)
	cluster.Apply(t, refusing("t17", "Secret", ", namespaces: [default]", ""))
	ready(t, "clusterpolicy", "t17")
	answers(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: default}\n", "the policy t17 says no")
	suite.Until(t, "the status of the policy names the place", func() error {
		status := cluster.Must(t, "", "get", "namespacedvalidatingpolicy", "freezes", "-n", "tenant", "-o", "jsonpath={.status}")
		for _, words := range []string{"resourceRules[0].operations[1]", "FOO"} {
			if !strings.Contains(status, words) {
				return fmt.Errorf("%q is not in %s", words, status)
			}
		}
		return nil
	})
	if err := create(t, `
apiVersion: policies.kyverno.io/v1
kind: NamespacedValidatingPolicy
metadata: {name: another, namespace: tenant}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [BAR], resources: [configmaps]}]}
  validations: [{expression: "false"}]
`); err == nil || !strings.Contains(err.Error(), "BAR") {
		t.Errorf("the review of the policy: %v", err)
	}
}

// An API server may reject a webhook for reasons that Ephor cannot know. The policy is found and left out, with the words of the API server in its
// status; the policies that share its webhook are enforced.
func TestT17RejectedPolicy(t *testing.T) {
	start(t)
	cluster.Namespace(t, "tenant")
	cluster.Apply(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: t17}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [admissionregistration.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [validatingwebhookconfigurations]}]}
  validations: [{expression: "!has(object.webhooks) || object.webhooks.all(w, w.rules.all(r, !('endpoints' in r.resources)))", message: "no webhooks for endpoints"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: t17}
spec: {policyName: t17, validationActions: [Deny]}
`)
	suite.Until(t, "the API server rejects webhooks for endpoints", func() error {
		err := create(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: t17}
webhooks:
- {name: a.example.com, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: "https://127.0.0.1:1/"}, failurePolicy: Ignore, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [endpoints]}]}
`)
		if err == nil || !strings.Contains(err.Error(), "no webhooks for endpoints") {
			return errors.Join(errors.New("it is accepted"), err)
		}
		return nil
	})
	of := func(name, resource string) string {
		return fmt.Sprintf(`
apiVersion: policies.kyverno.io/v1
kind: NamespacedValidatingPolicy
metadata: {name: %s, namespace: tenant}
spec:
  validationActions: [Deny]
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [%s]}]}
  validations: [{expression: "false", message: "the policy %s says no"}]
---
`, name, resource, name)
	}
	cluster.Apply(t, of("first", "configmaps")+of("rejected", "endpoints")+of("second", "services"))
	answers(t, configMap("tenant", "a"), "the policy first says no")
	answers(t, "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: tenant}\nspec: {ports: [{port: 1}]}\n", "the policy second says no")
	suite.Until(t, "the status has the words of the API server", func() error {
		status := cluster.Must(t, "", "get", "namespacedvalidatingpolicy", "rejected", "-n", "tenant", "-o", "jsonpath={.status}")
		if !strings.Contains(status, "no webhooks for endpoints") {
			return errors.New(status)
		}
		return nil
	})
}
