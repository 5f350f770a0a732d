package env

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"

	"ephor.invalid/ephor/internal/kubeversion"
)

// The base environments contain the same as the API server's environment of a version for stored expressions, and a test compares the two.
// They are assembled here because the environment of GeneratingPolicies contains only a part of it.

// Changes are the versions that changed the environment, in order. Before the first one, the environment is that of Kubernetes 1.29.
var Changes = []kubeversion.Minor{30, 31, 32, 33, 34, 37}

// EnvironmentOf returns the last version, up to the given one, that changed the environment. Versions with the same environment share it.
func EnvironmentOf(server kubeversion.Minor) kubeversion.Minor {
	of := kubeversion.Minor(29)
	for _, v := range Changes {
		if v <= server.Known() {
			of = v
		}
	}
	return of
}

// bases holds the base environments, built on first use.
var bases sync.Map // baseKey → func() *cel.Env

type baseKey struct {
	server kubeversion.Minor
	plain  bool // of GeneratingPolicies
}

func base(server kubeversion.Minor) *cel.Env { return baseOf(baseKey{EnvironmentOf(server), false}) }

func baseOf(key baseKey) *cel.Env {
	made, known := bases.Load(key)
	if !known {
		made, _ = bases.LoadOrStore(key, sync.OnceValue(func() *cel.Env {
			options := shared(key.server)
			if !key.plain {
				options = append(options, cel.ASTValidators(homogeneous{}))
				if key.server >= 32 {
					options = append(options, ext.TwoVarComprehensions())
				}
			}
			return mustEnv(options...)
		}))
	}
	return made.(func() *cel.Env)()
}

// mustEnv returns an environment and panics on an error. The error does not depend on any input, only on the libraries, and the tests call
// mustEnv.
func mustEnv(options ...cel.EnvOption) *cel.Env {
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic("cel/env: the base environment: " + err.Error())
	}
	return env
}

func shared(server kubeversion.Minor) []cel.EnvOption {
	out := []cel.EnvOption{
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
		library.URLs(), library.Regex(), library.Authz(), library.Quantity(),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(),
	}
	for _, change := range []struct {
		since   kubeversion.Minor
		options []cel.EnvOption
	}{
		{30, []cel.EnvOption{library.IP(), library.CIDR()}},
		{31, []cel.EnvOption{library.Format(), library.AuthzSelectors()}},
		{33, []cel.EnvOption{library.SemverLib(library.SemverVersion(1))}},
		{34, []cel.EnvOption{ext.Lists(ext.ListsVersion(3))}},
	} {
		if server >= change.since {
			out = append(out, change.options...)
		}
	}
	lists := uint32(0)
	if server >= 37 {
		lists = 1 // includes
	}
	return append(out, library.Lists(library.ListsVersion(lists)))
}
