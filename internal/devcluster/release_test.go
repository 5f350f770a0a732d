package devcluster

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A minor version selects its file of requirements and a binary of its own; the version of go.mod is the default.
func TestReleases(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	all := Versions(root)
	if !slices.Contains(all, "1.36") || !slices.Contains(all, "1.37") {
		t.Errorf("control planes of %v", all)
	}
	bins := map[string]bool{}
	for _, minor := range all {
		r, err := releaseOf(minor)
		if err != nil || !of(r.version, minor) {
			t.Errorf("%s: %+v, %v", minor, r, err)
		}
		if filepath.Base(r.bin) != "devcluster" { // the program looks at its name
			t.Errorf("%s: %s", minor, r.bin)
		}
		bins[r.bin] = true
	}
	if len(bins) != len(all) {
		t.Errorf("%d binaries of %d versions", len(bins), len(all))
	}
	if r, err := releaseOf(""); err != nil || r.modfile != "go.mod" || filepath.Base(r.bin) != "devcluster" {
		t.Errorf("the default: %+v, %v", r, err)
	}
	if _, err := releaseOf("1.12"); err == nil || !strings.Contains(err.Error(), "there is no control plane of this version") {
		t.Errorf("an unknown one: %v", err)
	}
}
