package webhookconf

import (
	"os"
	"strings"
	"testing"
)

// The user documentation lists every resource that wildcards do not include.
func TestPageListsReservedResources(t *testing.T) {
	page, err := os.ReadFile("../../docs/operating/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ReservedResources {
		name := r.Resource
		if r.Subresource != "" {
			name += "/" + r.Subresource
		}
		group := r.Group
		if group == "" {
			group = "core"
		}
		if line := "| " + group + " | `" + name + "` |"; !strings.Contains(string(page), line) {
			t.Errorf("the page has no line %s", line)
		}
	}
	for _, name := range append(append([]string{}, ownObjects.roles...), DerivedCondition, ReservedCondition, ConfinedCondition, NamelessCondition, bootstrapCondition,
		ExtraValidating, ExtraMutating) {
		if !strings.Contains(string(page), name) {
			t.Errorf("the page does not name %s", name)
		}
	}
}
