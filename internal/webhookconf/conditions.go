package webhookconf

import (
	"fmt"

	"github.com/ephor-dev/ephor/internal/celenv"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/settings"
)

// compiling are the conditions that compile.
func compiling(in []policy.MatchCondition) (out []policy.MatchCondition) {
	for _, c := range in {
		if usable, _ := CheckConditions([]settings.MatchCondition{{Name: c.Name, Expression: c.Expression}}); len(usable) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// CheckConditions gives the match conditions of the ConfigMap that the API server will take, and what is wrong with the
// others. One that does not compile would keep every change out of the configurations, new policies and authorities
// included.
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
