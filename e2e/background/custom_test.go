package background

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

const customKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: orders.custom.example.com}
spec:
  group: custom.example.com
  scope: Namespaced
  names: {kind: Order, listKind: OrderList, plural: orders, singular: order}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: invoices.custom.example.com}
spec:
  group: custom.example.com
  scope: Namespaced
  names: {kind: Invoice, listKind: InvoiceList, plural: invoices, singular: invoice}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: custom-background, labels: {rbac.kyverno.io/aggregate-to-background-controller: "true"}}
rules:
- {apiGroups: [custom.example.com], resources: ["*"], verbs: [get, list, create, update, delete]}
`

const customPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: custom}
spec:
  rules:
  - name: bill
    match: {any: [{resources: {kinds: [custom.example.com/v1/Order], namespaces: [custom]}}]}
    generate:
      synchronize: true
      generateExisting: true
      apiVersion: custom.example.com/v1
      kind: Invoice
      name: "{{request.object.metadata.name}}-bill"
      namespace: custom
      data: {spec: {text: "1"}}
`

// Triggers and generated objects may be of kinds that are defined after the start. When the definition of a trigger's kind is deleted, the API
// server serves no object of the kind, which is no proof that the trigger is gone: the work ends in an error, and nothing is deleted.
func TestCustomKinds(t *testing.T) {
	start(t)
	namespaces(t, "custom")
	cluster.Must(t, customKinds, "apply", "-f", "-")
	t.Cleanup(func() {
		if _, err := cluster.Try(t, customKinds, "delete", "--ignore-not-found", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	order := func(name string) string {
		return fmt.Sprintf("{apiVersion: custom.example.com/v1, kind: Order, metadata: {name: %s, namespace: custom}}", name)
	}
	invoices := func(want ...string) {
		t.Helper()
		suite.Eventually(t, func() error {
			got, err := cluster.Try(t, "", "get", "invoices", "-n", "custom", "-o", `jsonpath={range .items[*]}{.metadata.name}={.spec.text} {end}`)
			if err == nil && strings.TrimSpace(got) != strings.Join(want, " ") {
				err = fmt.Errorf("there are %q, want %q", got, want)
			}
			return err
		})
	}
	suite.Eventually(t, func() error { // a new kind is served after a moment
		_, err := cluster.Try(t, order("early"), "apply", "-f", "-")
		return err
	})
	apply(t, customPolicy)
	invoices("early-bill=1")
	cluster.Must(t, order("late"), "create", "-f", "-")
	invoices("early-bill=1", "late-bill=1")
	cluster.Must(t, "", "delete", "order", "early", "-n", "custom")
	invoices("late-bill=1")
	drained(t)
	cluster.Must(t, "", "delete", "customresourcedefinition", "orders.custom.example.com")
	cluster.Must(t, strings.Replace(customPolicy, `text: "1"`, `text: "2"`, 1), "apply", "-f", "-")
	failing(t, "custom", "read trigger custom.example.com/v1/Order/custom/late")
	invoices("late-bill=1")
}
