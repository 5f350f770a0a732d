package flagset

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestSwitch(t *testing.T) {
	for _, c := range []struct {
		arg  string // empty: not given
		env  *string
		on   bool // the default
		want bool
		fail bool
	}{
		{on: true, want: true},
		{env: new("false"), on: true, want: false},
		{env: new(""), on: true, want: true},
		{env: new("maybe"), fail: true},
		{arg: "--audit", want: true},
		{arg: "--audit=f", env: new("true"), want: false},
		{arg: "--audit=", env: new("true"), want: true},
		{arg: "--audit", env: new("maybe"), want: true},
	} {
		fs := pflag.NewFlagSet("admission", pflag.ContinueOnError)
		var got bool
		Switch(fs, &got, "audit", "FLAG_AUDIT", c.on, "evaluate audit rules")
		if c.arg != "" {
			if err := fs.Parse([]string{c.arg}); err != nil {
				t.Fatal(err)
			}
		}
		err := ReadSwitches(fs, func(name string) (string, bool) {
			if name != "FLAG_AUDIT" || c.env == nil {
				return "", false
			}
			return *c.env, true
		})
		if got != c.want || (err != nil) != c.fail {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
