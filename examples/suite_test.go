package examples_test

import (
	"bytes"
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
