package terminal

import (
	"errors"

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

// ExitMistake is the exit code of commands that tell a mistake in their flags apart from an answer that is no.
const ExitMistake = 2

// mistake is an error with that exit code.
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

// Code is the exit code of an error.
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
