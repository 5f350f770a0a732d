package flagset

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Flags below the parent may have one dash; other words stay as they are.
func TestNormalizeDashes(t *testing.T) {
	root := &cobra.Command{Use: "ephor"}
	apply := &cobra.Command{Use: "apply", Run: func(*cobra.Command, []string) {}}
	apply.Flags().Bool("webhookTimeout", false, "")
	controller := &cobra.Command{Use: "controller"}
	admission := &cobra.Command{Use: "admission", Run: func(*cobra.Command, []string) {}}
	admission.Flags().Int("webhookTimeout", 0, "")
	admission.Flags().String("loggingFormat", "", "")
	admission.Flags().IntP("v", "v", 0, "")
	admission.Flags().Bool("dumpPayload", false, "")
	controller.AddCommand(admission)
	root.AddCommand(controller, apply)
	for given, want := range map[string]string{
		"controller admission -webhookTimeout=15 -loggingFormat json -v=4": "controller admission --webhookTimeout=15 --loggingFormat json -v=4",
		"controller admission --webhookTimeout=15 -v 4 -dumpPayload":       "controller admission --webhookTimeout=15 -v 4 --dumpPayload",
		"controller admission -webhookTimeuot=15":                          "controller admission -webhookTimeuot=15",
		"controller admission -- -webhookTimeout=15":                       "controller admission -- -webhookTimeout=15",
		"apply -webhookTimeout=true":                                       "apply -webhookTimeout=true",
		"-webhookTimeout":                                                  "-webhookTimeout",
		"nothing -v":                                                       "nothing -v",
		"":                                                                 "",
	} {
		if got := strings.Join(NormalizeDashes(root, controller, strings.Fields(given)), " "); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
