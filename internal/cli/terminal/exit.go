package terminal

import (
	"github.com/spf13/cobra"
)

// Exit is an error that only carries the exit code: the command has printed everything already.
type Exit int

func (Exit) Error() string { return "" }

// End ends the command with an exit code, without a message.
func End(cmd *cobra.Command, code int) error {
	if code == 0 {
		return nil
	}
	cmd.SilenceErrors = true
	return Exit(code)
}
