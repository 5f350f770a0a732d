package celenv

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// The base environments. They have what the API server's environment for stored expressions has, which a test compares; they are put
// together here because the environment of GeneratingPolicies has some of it only.
var (
	base = sync.OnceValue(func() *cel.Env {
		return mustEnv(append(shared(), cel.HomogeneousAggregateLiterals(), cel.ASTValidators(cel.ValidateHomogeneousAggregateLiterals()), ext.TwoVarComprehensions())...)
	})
	plain = sync.OnceValue(func() *cel.Env { return mustEnv(shared()...) })
)

// mustEnv cannot fail on any input: it depends on the libraries alone, and the tests call it.
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
		cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
		library.URLs(), library.Regex(), library.Lists(), library.Authz(), library.AuthzSelectors(), library.Quantity(),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(library.SemverVersion(1)), ext.Lists(ext.ListsVersion(3)),
		cel.Lib(programs{}),
	}
}

// programs are the options of all programs: the library's optimizations, and the cost limits of the API server.
type programs struct{}

// CompileOptions implements the library's interface.
func (programs) CompileOptions() []cel.EnvOption { return nil }

// ProgramOptions implements the library's interface.
func (programs) ProgramOptions() []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(celconfig.PerCallLimit),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.CostTracking(&library.CostEstimator{}),
	}
}
