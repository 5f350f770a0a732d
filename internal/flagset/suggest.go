package flagset

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/strict"
)

// Suggest adds similar flags to the error for an unknown flag.
func Suggest(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	name := unknown.GetSpecifiedName()
	var near []string
	best := len(name)/3 + 1 // a name that differs more is not a misspelling
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, noEffect := f.Value.(*knownValue); f.Hidden && !noEffect {
			return
		}
		switch d := strict.Distance(strings.ToLower(name), strings.ToLower(f.Name)); {
		case d < best:
			near, best = []string{"--" + f.Name}, d
		case d == best:
			near = append(near, "--"+f.Name)
		}
	})
	if len(near) == 0 || len(near) > 3 {
		return fmt.Errorf("%w; `%s --help` lists the flags", err, cmd.CommandPath())
	}
	return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
}
