package env

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"

	"ephor.invalid/ephor/internal/kubeversion"
)

// The base environments contain the same as the API server's environment of a version for stored expressions. A test compares them with the
// functions that the API servers of all versions have (testdata/functions.tsv, which hack/since writes). They are assembled here because the
// environment of GeneratingPolicies contains only a part of it, and because older API servers have an older CEL library: what the library added
// or removed without a version of its own is not in the lists of newer API servers.

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

// Base returns the environment with the functions of a version of the API server, without any variables.
func Base(server kubeversion.Minor) *cel.Env { return baseOf(baseKey{EnvironmentOf(server), false}) }

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
	optionals, lists := uint32(1), uint32(0)
	if server >= 33 {
		optionals = 2 // first, last, unwrap
	}
	if server >= 37 {
		lists = 1 // includes
	}
	var out []cel.EnvOption
	if server < 31 {
		out = append(out, cel.ASTValidators(anyFormat{}))
	}
	if server < 37 {
		out = append(out, durationOfInt)
	}
	out = append(out,
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(cel.OptionalTypesVersion(optionals)),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
		library.URLs(), library.Regex(), library.Authz(), library.Quantity(), library.Lists(library.ListsVersion(lists)),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(),
	)
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
	return out
}

// durationOfInt is a conversion that the CEL library had until Kubernetes 1.36: it compiles, and is always an error.
var durationOfInt = cel.Function("duration", cel.Overload("int64_to_duration", []*cel.Type{cel.IntType}, cel.DurationType,
	cel.UnaryBinding(func(v ref.Val) ref.Val { return v.ConvertToType(types.DurationType) })))
