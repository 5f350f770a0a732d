package flagset

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// envSwitch is a boolean flag with an environment variable. The flag takes precedence over the variable; an empty value sets neither.
type envSwitch struct {
	on    *bool
	env   string
	given bool
}

// Switch registers a boolean flag that the environment variable env can also set. The flag takes precedence; an empty value sets neither.
// value is the default.
func Switch(fs *pflag.FlagSet, on *bool, name, env string, value bool, usage string) {
	*on = value
	fs.VarPF(&envSwitch{on: on, env: env}, name, "", usage+" (environment: "+env+")").NoOptDefVal = "true"
}

// ReadSwitches sets the switches that no flag has set from their environment variables, which lookup reads. It reports all invalid values.
func ReadSwitches(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		t, ok := f.Value.(*envSwitch)
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

func (t *envSwitch) String() string {
	if t.on == nil {
		return ""
	}
	return strconv.FormatBool(*t.on)
}

func (t *envSwitch) Type() string { return "bool" }

// Set accepts the values of strconv.ParseBool.
func (t *envSwitch) Set(text string) error {
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
