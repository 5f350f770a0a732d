package exception_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/exception"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/golden"
)

// TestMistakes runs testdata/*.txtar: object.yaml is an exception, want its diagnostics.
func TestMistakes(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		e, diags := exception.Compile(golden.Decode[map[string]any](t, in.Text("object.yaml")), family.Options{})
		if len(e.Diags) != len(diags) {
			t.Error("the exception does not carry its diagnostics")
		}
		var got strings.Builder
		for _, d := range diags {
			fmt.Fprintln(&got, d)
		}
		return got.String()
	})
}

func TestOwns(t *testing.T) {
	for _, c := range []struct {
		apiVersion, kind string
		want             bool
	}{
		{"kyverno.io/v2", "PolicyException", true},
		{"kyverno.io/v2beta1", "PolicyException", true},
		{"kyverno.io/v9", "PolicyException", true},
		{"policies.kyverno.io/v1", "PolicyException", false},
		{"kyverno.io/v1", "ClusterPolicy", false},
		{"v1", "PolicyException", false},
	} {
		if got := exception.Exceptions.Owns(c.apiVersion, c.kind); got != c.want {
			t.Errorf("%s %s: %v", c.apiVersion, c.kind, got)
		}
	}
}

// FuzzCompile tests that no object makes the compiler panic.
func FuzzCompile(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		if archive, err := txtar.ParseFile(file); err == nil {
			f.Add(string(archive.Files[0].Data))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if yaml.Unmarshal([]byte(text), &object) != nil || object == nil {
			return
		}
		if e, _ := exception.Compile(object, family.Options{}); e == nil || e.Match == nil {
			t.Error("no exception")
		}
	})
}
