package webhookconf

import (
	"fmt"

	"github.com/ephor-dev/ephor/internal/celenv"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/settings"
)

// compiling returns the conditions that compile.
func compiling(in []policy.MatchCondition) (out []policy.MatchCondition) {
	for _, c := range in {
		if usable, _ := CheckConditions([]settings.MatchCondition{{Name: c.Name, Expression: c.Expression}}); len(usable) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// CheckConditions returns the ConfigMap's match conditions that the API server accepts, and the mistakes in the others. Because of a
// condition that does not compile, the API server would reject every update of the configurations, including those for new policies and
// CA bundles.
func CheckConditions(in []settings.MatchCondition) (usable []settings.MatchCondition, mistakes []error) {
	compiler := celenv.NewCompiler(celenv.Declarations{})
	for _, c := range in {
		if _, err := compiler.Compile(c.Expression, celenv.Bool); err != nil {
			mistakes = append(mistakes, fmt.Errorf("match condition %s: %s", c.Name, celenv.Summary(err)))
			continue
		}
		usable = append(usable, c)
	}
	return usable, mistakes
}
