package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata run these programs: the command line with each of its three names.
func TestMain(m *testing.M) {
	run := func() { os.Exit(Main(os.Args, NewRoot())) }
	testscript.Main(m, map[string]func(){"ephor": run, "kyverno": run, "kubectl-kyverno": run})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			action, err := filepath.Abs("../../action/run.sh")
			e.Setenv("ACTION", action)
			return err
		},
		RequireUniqueNames: true,
		Cmds:               map[string]func(*testscript.TestScript, bool, []string){"parsed": parsed},
		UpdateScripts:      os.Getenv("UPDATE_SCRIPTS") != "",
	})
}
