package e2e

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cli"
)

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  versions:
  - {name: v1beta1, served: true, storage: OLD, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v1, served: true, storage: NEW, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// `ephor migrate` rewrites objects of an old version in the stored version, and removes the old version from the definition. A second run
// changes nothing.
func TestMigrate(t *testing.T) {
	definition := func(old, new string) string {
		return strings.NewReplacer("OLD", old, "NEW", new).Replace(gadgets)
	}
	must(t, definition("true", "false"), "apply", "-f", "-")
	t.Cleanup(func() { _, _ = kubectl(t, "", "delete", "crd", "gadgets.example.com") })
	const gadget = "{apiVersion: example.com/v1beta1, kind: Gadget, metadata: {name: g, namespace: default}, size: 1}"
	err := cluster.Wait(t.Context(), "the kind Gadget", func() error {
		_, err := kubectl(t, gadget, "apply", "-f", "-")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	must(t, strings.Replace(gadget, "name: g,", "name: probe,", 1), "apply", "-f", "-")
	must(t, definition("false", "true"), "apply", "-f", "-")
	stored := func() string {
		return must(t, "", "get", "crd", "gadgets.example.com", "-o", "jsonpath={.status.storedVersions}")
	}
	if got := stored(); got != `["v1beta1","v1"]` {
		t.Fatalf("stored versions before: %s", got)
	}
	before := must(t, "", "get", "gadget", "g", "-n", "default", "-o", "jsonpath={.metadata.resourceVersion}")

	// The API server writes the new version after a moment. From then on it rewrites an object even for a patch without a change.
	version := func() string {
		return must(t, "", "get", "gadget", "probe", "-n", "default", "-o", "jsonpath={.metadata.resourceVersion}")
	}
	old := version()
	eventually(t, func() error {
		must(t, "", "patch", "gadget", "probe", "-n", "default", "--type=merge", "-p", `{"size":1}`)
		if version() == old {
			return errors.New("the API server writes the old version")
		}
		return nil
	})
	const steps = "migrating resource: gadgets.example.com ...\nstored version: v1\n"
	if got := migrate(t, "gadgets.example.com"); got != steps+"migrating resources...\npatching status...\n" {
		t.Errorf("printed\n%s", got)
	}
	if got := stored(); got != `["v1"]` {
		t.Errorf("stored versions after: %s", got)
	}
	if after := must(t, "", "get", "gadget", "g", "-n", "default", "-o", "jsonpath={.metadata.resourceVersion}"); after == before {
		t.Error("the object was not written again")
	}
	if got := migrate(t, "gadgets.example.com"); got != steps+"stored version is already up to date, nothing to do\n" {
		t.Errorf("the second time printed\n%s", got)
	}
	if got := must(t, "", "get", "gadget", "g", "-n", "default", "-o", "jsonpath={.size}"); got != "1" {
		t.Errorf("size %s", got)
	}
}

func migrate(t *testing.T, resource string) string {
	t.Helper()
	var out bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&out)
	args := []string{"ephor", "migrate", "--kubeconfig", cluster.Kubeconfig, "--resource", resource}
	if code := cli.Main(args, root); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	return out.String()
}
