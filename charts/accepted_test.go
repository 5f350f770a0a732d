package charts_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/hack/chart/helm"
	"ephor.invalid/ephor/hack/chart/values"
)

// accepted reads testdata/accepted.keys: the path of each value of Kyverno's charts, and the types of its default there.
func accepted(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/accepted.keys")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if path, types, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			all[path] = strings.Split(types, ",")
		}
	}
	if len(all) < 900 {
		t.Fatalf("only %d values", len(all))
	}
	return all
}

// split splits a path at its dots, except those behind a backslash.
func split(path string) []string {
	parts := strings.Split(strings.ReplaceAll(path, `\.`, "\x00"), ".")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\x00", ".")
	}
	return parts
}

// sample returns a value of the type: the chart's own default if it has the type.
func sample(kind string, own *values.Value) any {
	switch kind {
	case "string":
		if own != nil {
			if s, ok := own.Default.(string); ok {
				return s
			}
			if len(own.Enum) > 0 {
				return own.Enum[0]
			}
		}
		return "1h"
	case "number":
		if own != nil {
			if n, ok := own.Default.(int); ok {
				return n
			}
		}
		return 1
	case "boolean":
		if own != nil {
			if b, ok := own.Default.(bool); ok {
				return b
			}
		}
		return false
	case "list":
		return []any{}
	case "map":
		return map[string]any{}
	}
	return nil
}

// put sets the value at the path. It returns false if another value prevents that.
func put(into map[string]any, path []string, value any) bool {
	for ; len(path) > 1; path = path[1:] {
		below, ok := into[path[0]]
		if !ok {
			below = map[string]any{}
			into[path[0]] = below
		}
		if into, ok = below.(map[string]any); !ok {
			return false
		}
	}
	if _, taken := into[path[0]]; taken {
		return false
	}
	into[path[0]] = value
	return true
}

// Every value of Kyverno's charts 3.2 to 3.9 is accepted, with each type that its default has there.
func TestAccepted(t *testing.T) {
	all := accepted(t)
	own := map[string]*values.Value{}
	for _, v := range parse(t) {
		own[v.Path] = v
	}
	left := map[string]bool{}
	for path, types := range all {
		for _, kind := range types {
			left[path+" "+kind] = true
		}
	}
	// A value that conflicts with another one, or that also has another type, is set in the next round.
	for len(left) > 0 {
		given, before := map[string]any{}, len(left)
		for _, value := range slices.Sorted(maps.Keys(left)) {
			path, kind, _ := strings.Cut(value, " ")
			if put(given, split(path), sample(kind, own[strings.ReplaceAll(path, `\.`, ".")])) {
				delete(left, value)
			}
		}
		if len(left) == before {
			t.Fatalf("values that cannot be given: %v", slices.Sorted(maps.Keys(left)))
		}
		renderedWith(t, given)
	}
}

// renderedWith renders the chart with the values, and returns the documents.
func renderedWith(t *testing.T, given map[string]any) []helm.Document {
	t.Helper()
	text, err := yaml.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	docs, err := helm.Template("ephor", helm.Release, "-f", file)
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// Each version's list in the reference data, if available, is a part of testdata/accepted.keys.
func TestAcceptedIsWhole(t *testing.T) {
	dir := os.Getenv("EPHOR_REFERENCE")
	if dir == "" {
		dir = "../../shared/reference"
	}
	files, err := filepath.Glob(filepath.Join(dir, "chart-keys", "*.tsv"))
	if err != nil || len(files) == 0 {
		t.Skip("the lists of keys are not here")
	}
	all := accepted(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			path, kind, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if ok && !strings.HasPrefix(line, "#") && !slices.Contains(all[path], kind) {
				t.Errorf("%s: %s (%s) is not in testdata/accepted.keys", filepath.Base(file), path, kind)
			}
		}
	}
}

// Realistic files of values for Kyverno's chart are rendered without errors.
func TestRealisticValues(t *testing.T) {
	files, err := filepath.Glob("testdata/realistic/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		docs, err := helm.Template("ephor", helm.Release, "-f", file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(docs) < 40 {
			t.Errorf("%s: only %d objects", file, len(docs))
		}
	}
}

// The notes list the values without effect that the user set, and no others.
func TestNotes(t *testing.T) {
	notes := func(args ...string) string {
		t.Helper()
		out, err := helm.Run(append([]string{"install", helm.Release, "ephor", "--namespace", "kyverno", "--dry-run=client"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		_, out, ok := strings.Cut(out, "\nNOTES:\n")
		if !ok {
			t.Fatal("there are no notes")
		}
		return out
	}
	if got := notes(); strings.Contains(got, "no effect") {
		t.Errorf("without values:\n%s", got)
	}
	got := notes("-f", "testdata/ignored.values")
	for _, v := range parse(t) {
		if v.Ignored && !strings.Contains(got, "\n  "+v.Path+"\n") && fmt.Sprint(v.Default) != fmt.Sprint(at(t, "testdata/ignored.values", v.Path)) {
			t.Errorf("the notes do not name %s:\n%s", v.Path, got)
		}
	}
	if got := notes("--set", "admissionController.replicas=3,features.dumpPatches.enabled=true"); !strings.Contains(got, "\n  features.dumpPatches\n") || strings.Contains(got, "replicas\n") {
		t.Errorf("one value without effect:\n%s", got)
	}
}

// at returns the value at the path in a file of values.
func at(t *testing.T, file, path string) any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	for _, name := range split(path) {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}
