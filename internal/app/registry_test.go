package app

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The flags for registries are validated at the start. The forms that charts use are accepted.
func TestRegistryFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // part of the error
	}{
		{nil, ""},
		{[]string{"--imagePullSecrets=", "--registryCredentialHelpers=", "--allowInsecureRegistry=false"}, ""},
		{[]string{"--imagePullSecrets=a,other/b,/c", "--registryCredentialHelpers=default,google,amazon,azure,github"}, ""},
		{[]string{"--imagePullSecrets=a/b/c"}, `pull secret "a/b/c" is neither name nor namespace/name`},
		{[]string{"--registryCredentialHelpers=nobody"}, `unknown provider of registry credentials "nobody"`},
	} {
		var f registryFlags
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.register(fs)
		err := fs.Parse(c.args)
		if err == nil {
			err = f.complete()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
