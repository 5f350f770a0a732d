package app

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Flags of controllers may have one dash, as Kyverno's.
func TestDoubleDashes(t *testing.T) {
	root := &cobra.Command{Use: "ephor"}
	apply := &cobra.Command{Use: "apply", Run: func(*cobra.Command, []string) {}}
	apply.Flags().Bool("webhookTimeout", false, "")
	root.AddCommand(NewControllerCommand("v1"), apply)
	for given, want := range map[string]string{
		"controller admission -webhookTimeout=15 -loggingFormat json -v=4": "controller admission --webhookTimeout=15 --loggingFormat json -v=4",
		"controller admission --webhookTimeout=15 -v 4 -dumpPayload":       "controller admission --webhookTimeout=15 -v 4 --dumpPayload",
		"controller background -clientRateLimitQPS=10":                     "controller background --clientRateLimitQPS=10",
		"controller admission -webhookTimeuot=15":                          "controller admission -webhookTimeuot=15",
		"controller admission -- -webhookTimeout=15":                       "controller admission -- -webhookTimeout=15",
		"apply -webhookTimeout=true":                                       "apply -webhookTimeout=true",
		"-webhookTimeout":                                                  "-webhookTimeout",
		"nothing -v":                                                       "nothing -v",
		"":                                                                 "",
	} {
		if got := strings.Join(DoubleDashes(root, strings.Fields(given)), " "); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
