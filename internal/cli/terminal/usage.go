package terminal

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/strict"
)

// AddUsage adds a line about --help to every error about arguments and flags. It is the second line, since programs parse the first one.
func AddUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(flagError)
	describeArgs(cmd)
}

func describeArgs(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if check := c.Args; check != nil {
			c.Args = func(cmd *cobra.Command, args []string) error {
				return withUsage(cmd, nameArguments(cmd, args, check(cmd, args)))
			}
		}
		describeArgs(c)
	}
}

// nameArguments adds the arguments of the command to an error about them, or the flag for files if one of them is a file or folder.
func nameArguments(cmd *cobra.Command, args []string, err error) error {
	if err == nil {
		return nil
	}
	if len(args) > 0 && cmd.Flags().Lookup("filename") != nil {
		if _, absent := os.Stat(args[0]); absent == nil {
			return fmt.Errorf("%w\n(name files with --filename: %s -f %s)", err, cmd.CommandPath(), args[0])
		}
	}
	if _, arguments, some := strings.Cut(cmd.Use, " "); some {
		return fmt.Errorf("%w\n(%s %s)", err, cmd.CommandPath(), arguments)
	}
	return err
}

// flagError suggests the flag that the user probably meant instead of an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := strict.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			err = fmt.Errorf("%w\nDid you mean --%s?", err, near)
		}
	}
	return withUsage(cmd, err)
}

func withUsage(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s", err, fmt.Sprintf("Run '%s --help' for usage.", cmd.CommandPath())) // the text that cobra has for unknown commands
}

// Choices sets the values of a flag for shell completion.
func Choices(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the command has no such flag
	}
}
