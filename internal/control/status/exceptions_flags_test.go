package status

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/intake"
)

// No exceptions have an effect until an administrator names the namespaces.
func TestExceptionFlags(t *testing.T) {
	for _, c := range []struct {
		flags     ExceptionFlags
		on        bool
		accepts   string // namespaces
		acceptNot string
	}{
		{ExceptionFlags{}, false, "", "a b"},
		{ExceptionFlags{Enabled: true}, false, "", "a b"},
		{ExceptionFlags{Namespace: "*"}, false, "", "a b"},
		{ExceptionFlags{Enabled: true, Namespace: "a"}, true, "a", "b"},
		{ExceptionFlags{Enabled: true, Namespace: "*"}, true, "a b", ""},
	} {
		if c.flags.On() != c.on {
			t.Errorf("%+v: on is %v", c.flags, c.flags.On())
		}
		for _, ns := range strings.Fields(c.accepts) {
			if !c.flags.Accepts(ns) {
				t.Errorf("%+v does not accept %s", c.flags, ns)
			}
		}
		for _, ns := range strings.Fields(c.acceptNot) {
			if c.flags.Accepts(ns) {
				t.Errorf("%+v accepts %s", c.flags, ns)
			}
		}
	}
}

// Row S13 of docs/security/threat-model.md: no exception has an effect until an administrator has enabled exceptions and set a namespace.
func TestS13NoExceptionsByDefault(t *testing.T) {
	for flags, accepted := range map[ExceptionFlags]bool{
		{}: false, {Enabled: true}: false, {Namespace: "named"}: false, {Namespace: allNamespaces}: false,
		{Enabled: true, Namespace: "named"}: true, {Enabled: true, Namespace: allNamespaces}: true,
	} {
		if flags.Accepts("named") != accepted || flags.Accepts("") && flags.Namespace != allNamespaces {
			t.Errorf("%+v: accepted is %v", flags, !accepted)
		}
	}
}

// Exceptions without effect take hardly any memory.
func TestCacheOfExceptions(t *testing.T) {
	if len(compile.Product.Exceptions()) < 2 {
		t.Fatal("there are two kinds of exceptions")
	}
	for _, x := range compile.Product.Exceptions() {
		for namespace, kept := range map[string]bool{"named": true, "other": false} {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"match": "x"}, "status": map[string]any{"approval": "y", "use": "z"}}}
			u.SetGroupVersionKind(x.GVK())
			u.SetNamespace(namespace)
			u.SetAnnotations(map[string]string{"a": "b"})
			out, err := (&ExceptionFlags{Enabled: true, Namespace: "named"}).Transform(u)
			packed, ok := out.(*intake.Packed)
			if err != nil || !ok {
				t.Fatalf("%s in %s: %v, %v", x.Group, namespace, out, err)
			}
			u = &unstructured.Unstructured{Object: packed.Object()}
			approval, _, _ := unstructured.NestedString(u.Object, "status", "approval")
			use, _, _ := unstructured.NestedString(u.Object, "status", "use")
			if (u.Object["spec"] != nil) != kept || (u.GetAnnotations() != nil) != kept || u.GetNamespace() != namespace || packed.GetNamespace() != namespace ||
				(approval == "y") != kept || use != "" || u.GroupVersionKind() != x.GVK() {
				t.Errorf("%s in %s: %v", x.Group, namespace, u.Object)
			}
		}
	}
}
