package intake

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

func TestExceptionsFollowEvents(t *testing.T) {
	c := catalog.New()
	x := &Exceptions{Accepts: func(namespace string) bool { return namespace == "a" }, Catalog: c, Log: slog.New(slog.DiscardHandler)}
	h := x.Watches()[0].Handler
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
			x := &Exceptions{Accepts: func(namespace string) bool { return namespace == "named" }, Catalog: c, Log: slog.New(slog.DiscardHandler)}
			var u unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(`{apiVersion: kyverno.io/`+version+`, kind: PolicyException, metadata: {name: x}, spec: {
			  match: {any: [{resources: {kinds: [Pod]}}]}, exceptions: [{policyName: p, ruleNames: [r]}]}}`), &u.Object); err != nil {
				t.Fatal(err)
			}
			u.SetNamespace(namespace)
			x.Watches()[0].Handler.OnAdd(&u, true)
			if got := len(c.Snapshot().Exceptions()) == 1; got != accepted {
				t.Errorf("%s in %q: in force is %v", version, namespace, got)
			}
		}
	}
}
