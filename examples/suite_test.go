package examples_test

import (
	"bytes"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cli"
)

// The Test of the examples passes, and each of its expectations selects results (--strict).
func TestSuite(t *testing.T) {
	var out bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&out)
	root.SetErr(&out)
	if code := cli.Main([]string{"ephor", "test", ".", "--strict", "--fail-only"}, root); code != 0 {
		t.Errorf("exit code %d\n%s", code, out.String())
	}
}

// The commands of a pipeline pass over the whole folder, with its tests, resources and exceptions, as over a repository of policies.
func TestPipeline(t *testing.T) {
	for _, args := range []string{
		"lint . --strict", "apply library/disallow-latest-tag --resource library/disallow-latest-tag/good.yaml --strict", "explain . --resource library/disallow-latest-tag/good.yaml", "convert . --samples 0",
	} {
		var out, errs bytes.Buffer
		root := cli.NewRoot()
		root.SetOut(&out)
		root.SetErr(&errs)
		if code := cli.Main(append([]string{"ephor"}, strings.Fields(args)...), root); code != 0 || strings.Contains(errs.String(), "not supported") {
			t.Errorf("ephor %s: exit code %d\n%.2000s", args, code, errs.String())
		}
	}
}
