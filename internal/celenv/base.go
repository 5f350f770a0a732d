package celenv

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"
)

// The base environments. They contain the same as the API server's environment for stored expressions, and a test compares the two.
// They are assembled here because the environment of GeneratingPolicies contains only a part of it.
var (
	base = sync.OnceValue(func() *cel.Env {
		return mustEnv(append(shared(), cel.ASTValidators(homogeneous{}), ext.TwoVarComprehensions())...)
	})
	plain = sync.OnceValue(func() *cel.Env { return mustEnv(shared()...) })
)

// mustEnv returns an environment and panics on an error. The error does not depend on any input, only on the libraries, and the tests call
// mustEnv.
func mustEnv(options ...cel.EnvOption) *cel.Env {
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic("celenv: the base environment: " + err.Error())
	}
	return env
}

func shared() []cel.EnvOption {
	return []cel.EnvOption{
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
		library.URLs(), library.Regex(), library.Lists(library.ListsVersion(1)), library.Authz(), library.AuthzSelectors(), library.Quantity(),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(library.SemverVersion(1)), ext.Lists(ext.ListsVersion(3)),
	}
}
