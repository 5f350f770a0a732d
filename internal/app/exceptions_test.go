package app

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/exception"
)

// No exceptions have an effect until an administrator names the namespaces.
func TestExceptionFlags(t *testing.T) {
	for _, c := range []struct {
		flags     exceptionFlags
		on        bool
		accepts   string // namespaces
		acceptNot string
	}{
		{exceptionFlags{}, false, "", "a b"},
		{exceptionFlags{enabled: true}, false, "", "a b"},
		{exceptionFlags{namespace: "*"}, false, "", "a b"},
		{exceptionFlags{enabled: true, namespace: "a"}, true, "a", "b"},
		{exceptionFlags{enabled: true, namespace: "*"}, true, "a b", ""},
	} {
		if c.flags.on() != c.on {
			t.Errorf("%+v: on is %v", c.flags, c.flags.on())
		}
		for _, ns := range strings.Fields(c.accepts) {
			if !c.flags.accepts(ns) {
				t.Errorf("%+v does not accept %s", c.flags, ns)
			}
		}
		for _, ns := range strings.Fields(c.acceptNot) {
			if c.flags.accepts(ns) {
				t.Errorf("%+v accepts %s", c.flags, ns)
			}
		}
	}
}

func TestExceptionsFollowEvents(t *testing.T) {
	c := catalog.New()
	x := &exceptions{flags: exceptionFlags{enabled: true, namespace: "a"}, catalog: c, log: slog.New(slog.DiscardHandler)}
	h := x.handler()
	object := func(namespace, policy string, generation int64) *unstructured.Unstructured {
		var u unstructured.Unstructured
		text := fmt.Sprintf(`{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: x, namespace: %s, uid: u}, spec: {
		  match: {any: [{resources: {kinds: [Pod]}}]}, exceptions: [{policyName: %q, ruleNames: [r]}]}}`, namespace, policy)
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetGeneration(generation)
		return &u
	}
	expect := func(what, want string) {
		t.Helper()
		var got []string
		for _, e := range c.Snapshot().Exceptions() {
			got = append(got, e.Key()+" for "+e.Rules[0].Policy)
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: %v, want %s", what, got, want)
		}
	}
	h.OnAdd(object("b", "p", 1), true)
	expect("another namespace", "")
	first := object("a", "p", 1)
	h.OnAdd(first, true)
	expect("added", "a/x for p")
	version := c.Snapshot().Version()
	h.OnUpdate(first, object("a", "p", 1))
	if c.Snapshot().Version() != version {
		t.Error("the same content was compiled again")
	}
	h.OnUpdate(first, object("a", "q", 2))
	expect("changed", "a/x for q")
	h.OnUpdate(first, object("a", "", 3))
	expect("one with a mistake is not in force, nor is what it was before", "")
	h.OnUpdate(first, object("a", "q", 4))
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: first})
	expect("deleted", "")
}

// Row S13 of docs/threat-model.md: an exception counts only in the namespaces that an administrator named, whatever
// version it was written in.
func TestS13ExceptionsOfOtherNamespaces(t *testing.T) {
	for _, version := range exception.Versions {
		for namespace, accepted := range map[string]bool{"named": true, "other": false, "": false} {
			c := catalog.New()
			x := &exceptions{flags: exceptionFlags{enabled: true, namespace: "named"}, catalog: c, log: slog.New(slog.DiscardHandler)}
			var u unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(`{apiVersion: kyverno.io/`+version+`, kind: PolicyException, metadata: {name: x}, spec: {
			  match: {any: [{resources: {kinds: [Pod]}}]}, exceptions: [{policyName: p, ruleNames: [r]}]}}`), &u.Object); err != nil {
				t.Fatal(err)
			}
			u.SetNamespace(namespace)
			x.handler().OnAdd(&u, true)
			if got := len(c.Snapshot().Exceptions()) == 1; got != accepted {
				t.Errorf("%s in %q: in force is %v", version, namespace, got)
			}
		}
	}
}

// Row S13 of docs/threat-model.md: none counts until an administrator has switched them on and named a namespace.
func TestS13NoExceptionsByDefault(t *testing.T) {
	for flags, accepted := range map[exceptionFlags]bool{
		{}: false, {enabled: true}: false, {namespace: "named"}: false, {namespace: allNamespaces}: false,
		{enabled: true, namespace: "named"}: true, {enabled: true, namespace: allNamespaces}: true,
	} {
		if flags.accepts("named") != accepted || flags.accepts("") && flags.namespace != allNamespaces {
			t.Errorf("%+v: accepted is %v", flags, !accepted)
		}
	}
}

// The exceptions that do not count take hardly any memory.
func TestCacheOfExceptions(t *testing.T) {
	for namespace, kept := range map[string]bool{"named": true, "other": false} {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"match": "x"}}}
		u.SetGroupVersionKind(exceptionGVK)
		u.SetNamespace(namespace)
		u.SetAnnotations(map[string]string{"a": "b"})
		out, err := (&exceptionFlags{enabled: true, namespace: "named"}).transform(u)
		if err != nil || (u.Object["spec"] != nil) != kept || (u.GetAnnotations() != nil) != kept || u.GetNamespace() != namespace || out != any(u) {
			t.Errorf("%s: %v, %v", namespace, out, err)
		}
	}
}
