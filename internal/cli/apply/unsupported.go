package apply

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// unsupported are the flags of Kyverno's command line whose feature this version does not have. They are known, so
// that using one gives a sentence, and hidden.
var unsupported = []struct {
	names []string // a one-letter name is the shorthand of the name before it
	value bool     // takes a value
	why   string
}{
	{[]string{"http-payload", "envoy-payload"}, true, "check requests of proxies cannot be evaluated yet"},
}

func addUnsupported(f *pflag.FlagSet) {
	for _, u := range unsupported {
		for i, name := range u.names {
			if len(name) == 1 {
				continue
			}
			short := ""
			if i+1 < len(u.names) && len(u.names[i+1]) == 1 {
				short = u.names[i+1]
			}
			if u.value {
				f.StringArrayP(name, short, nil, "not supported by this version")
			} else {
				f.BoolP(name, short, false, "not supported by this version")
			}
			f.Lookup(name).Hidden = true
		}
	}
}

// refuseUnsupported names every flag that was given but means nothing here.
func refuseUnsupported(f *pflag.FlagSet) error {
	var given []string
	for _, u := range unsupported {
		for _, name := range u.names {
			if len(name) > 1 && f.Changed(name) {
				given = append(given, fmt.Sprintf("the flag --%s is not supported by this version: %s", name, u.why))
			}
		}
	}
	if len(given) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(given, "\n       "))
}
