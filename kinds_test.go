package ephor_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"ephor.invalid/ephor/internal/compile"
)

// TestKindsAreWhole: each kind has its definition, a page of docs/policies names it, and the backup before an upgrade has it.
func TestKindsAreWhole(t *testing.T) {
	pages, err := filepath.Glob("docs/policies/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(err, pages)
	}
	var text []byte
	for _, p := range pages {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	backup, err := os.ReadFile("docs/operating/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range compile.Kinds {
		if k.Foreign {
			continue
		}
		if _, err := os.Stat("config/crds/" + k.Group + "_" + k.Resource + ".yaml"); err != nil {
			t.Errorf("%s has no definition: write its type in api, as those of its group, and run make generate: %v", k.Kind, err)
		}
		if !regexp.MustCompile(`\b` + k.Kind + `\b`).Match(text) {
			t.Errorf("no page of docs/policies names the kind %s: add it to the page of its family", k.Kind)
		}
		if !regexp.MustCompile(`kubectl get .*\b` + k.Resource + `\b`).Match(backup) {
			t.Errorf("docs/operating/upgrade.md backs up no %s: add them to a command there", k.GVR().GroupResource())
		}
	}
}
