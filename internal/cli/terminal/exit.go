package terminal

import (
	"errors"

	"github.com/spf13/cobra"
)

// Exit is an error that only carries the exit code. The command has already printed everything.
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

// ExitMistake is the exit code for mistakes in the flags, in commands that distinguish them from a negative answer.
const ExitMistake = 2

// mistake is an error with the exit code ExitMistake.
type mistake struct{ error }

// Unwrap returns the error itself.
func (m mistake) Unwrap() error { return m.error }

// Mistake gives an error the exit code ExitMistake; nil stays nil.
func Mistake(err error) error {
	if err == nil {
		return nil
	}
	return mistake{err}
}

// Code returns the exit code for an error.
func Code(err error) int {
	switch exit, m := Exit(0), (mistake{}); {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &m):
		return ExitMistake
	}
	return 1
}
