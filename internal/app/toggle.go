package app

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// toggle is a switch that the environment may set, too: the flag wins, then the environment,
// and an empty text says nothing.
type toggle struct {
	on    *bool
	env   string
	given bool
}

// registerToggle registers a toggle; value is its default.
func registerToggle(fs *pflag.FlagSet, on *bool, name, env string, value bool, usage string) {
	*on = value
	fs.VarPF(&toggle{on: on, env: env}, name, "", usage+" (environment: "+env+")").NoOptDefVal = "true"
}

// readToggles takes from the environment the toggles that no flag set.
func readToggles(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		t, ok := f.Value.(*toggle)
		if !ok || t.given {
			return
		}
		if text, ok := lookup(t.env); ok {
			if err := t.Set(text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", t.env, err))
			}
		}
	})
	return errors.Join(errs...)
}

func (t *toggle) String() string {
	if t.on == nil {
		return ""
	}
	return strconv.FormatBool(*t.on)
}

func (t *toggle) Type() string { return "bool" }

// Set reads what strconv.ParseBool takes.
func (t *toggle) Set(text string) error {
	if text == "" {
		return nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", text)
	}
	*t.on, t.given = on, true
	return nil
}
