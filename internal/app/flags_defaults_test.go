package app

import (
	"testing"

	"github.com/spf13/cobra"
)

// Each controller has its own default for flags for which Kyverno's controllers differ.
func TestDefaultsOfControllers(t *testing.T) {
	commands := map[string]*cobra.Command{}
	for _, name := range []string{nameAdmission, nameBackground, nameReports, nameCleanup} {
		commands[name] = newCommand(name)
	}
	for flag, want := range map[string]map[string]string{
		"maxAPICallResponseLength": {"admission": "10000000", "background": "2000000", "reports": "2000000", "cleanup": "2000000"},
		"clientRateLimitQPS":       {"admission": "100", "background": "100", "reports": "300", "cleanup": "100"},
		"clientRateLimitBurst":     {"admission": "200", "background": "200", "reports": "300", "cleanup": "200"},
	} {
		for name, cmd := range commands {
			f := cmd.Flags().Lookup(flag)
			if f.DefValue != want[name] || f.Value.String() != want[name] {
				t.Errorf("%s --%s: %s, and %s in the help; want %s", name, flag, f.Value, f.DefValue, want[name])
			}
		}
	}
}
