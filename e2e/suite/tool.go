package suite

import (
	"os"
	"os/exec"
	"testing"
)

// Tool reports whether a program that `make test` does not require is on this machine. If it is not, Tool logs that, and fails the test if
// the environment has CI=true.
func Tool(t testing.TB, program string) bool {
	t.Helper()
	_, err := exec.LookPath(program)
	switch {
	case err == nil:
		return true
	case os.Getenv("CI") == "true":
		t.Fatalf("%v: with CI=true it has to be installed", err)
	}
	t.Logf("NOT RUN: %v", err)
	return false
}
