package webhooks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

// A policy for a kind that was just defined is in force when it reports that it is ready, although the API server lists the kind some time
// after it serves its objects.
func TestKindsThatArrive(t *testing.T) {
	start(t)
	cluster.Apply(t, refusing("before", "ConfigMap", "", "")) // discovery runs when definitions change
	ready(t, "clusterpolicy", "before")
	for i := range 5 {
		plural, kind := fmt.Sprintf("arrival%ds", i), fmt.Sprintf("Arrival%d", i)
		cluster.Apply(t, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: %s, singular: %s, kind: %s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, plural, plural, strings.ToLower(kind), kind))
		cluster.Must(t, "", "wait", "--for=condition=Established", "crd", plural+".example.com")
		name := strings.ToLower(kind)
		cluster.Apply(t, refusing(name, kind, "", ""))
		ready(t, "clusterpolicy", name)
		c, err := validating(t)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Webhooks) != 1 || !slices.ContainsFunc(c.Webhooks[0].Rules[0].Resources, func(r string) bool { return r == "configmaps" }) ||
			!strings.Contains(fmt.Sprint(c.Webhooks[0].Rules), plural) {
			t.Errorf("%s is ready, but the rules are %v", name, c.Webhooks)
		}
		suite.Eventually(t, func() error {
			err := create(t, "apiVersion: example.com/v1\nkind: "+kind+"\nmetadata: {name: a, namespace: default}\n")
			if err == nil || !strings.Contains(err.Error(), "the policy "+name+" says no") {
				return errors.Join(errors.New("it was not refused"), err)
			}
			return nil
		})
	}
}
