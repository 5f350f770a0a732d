package lookups

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/policy"
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
		var f RegistryFlags
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Register(fs)
		err := fs.Parse(c.args)
		if err == nil {
			err = f.Complete()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// T22: the status names the namespaced policies that read registries, if the installation has a login that they may not use.
func TestT22WithheldLogin(t *testing.T) {
	rules := func(registries bool) []*policy.Rule {
		return []*policy.Rule{{}, {Reads: policy.Reads{Needs: policy.Needs{Registries: registries}}}}
	}
	for _, c := range []struct {
		args    []string
		program *policy.Program
		want    bool
	}{
		{[]string{"--imagePullSecrets=a"}, &policy.Program{Namespace: "team", Rules: rules(true)}, true},
		{[]string{"--registryCredentialHelpers=default,amazon"}, &policy.Program{Namespace: "team", Rules: rules(true)}, true},
		{[]string{"--imagePullSecrets=a", "--namespacedPoliciesUseOperatorLogin"}, &policy.Program{Namespace: "team", Rules: rules(true)}, false},
		{[]string{"--registryCredentialHelpers=default"}, &policy.Program{Namespace: "team", Rules: rules(true)}, false},
		{[]string{"--imagePullSecrets=a"}, &policy.Program{Namespace: "team", Rules: rules(false)}, false},
		{[]string{"--imagePullSecrets=a"}, &policy.Program{Rules: rules(true)}, false},
		{[]string{"--imagePullSecrets=a"}, nil, false},
	} {
		var f RegistryFlags
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Register(fs)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if got := f.Withholds(c.program); got != c.want {
			t.Errorf("%v, %+v: %v", c.args, c.program, got)
		}
		if on := f.options("kyverno", nil, nil).ConfinedLogin; on != (len(c.args) > 1) {
			t.Errorf("%v: the client of registries has %v", c.args, on)
		}
	}
}
