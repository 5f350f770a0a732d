package rule

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/condition"
	"github.com/ephor-dev/ephor/internal/loader"
	"github.com/ephor-dev/ephor/internal/policy"
)

// handler judges a request after the prelude.
type handler func(*policy.Scope) policy.Yield

const textPreconditions = "preconditions not met"

// withPrelude puts before a handler what every rule does first (§3.2): context entries are registered, not loaded;
// preconditions are judged.
func withPrelude(chain *loader.Chain, preconditions *condition.Set, run handler) func(*policy.Scope) policy.Yield {
	if preconditions == nil {
		if chain == nil {
			return run
		}
		return func(s *policy.Scope) policy.Yield { return run(chain.Apply(s)) }
	}
	return func(s *policy.Scope) policy.Yield {
		s = chain.Apply(s)
		verdict, err := preconditions.Eval(s.Env, s)
		if err != nil {
			return failed("failed to evaluate preconditions: ", err)
		}
		if !verdict.OK {
			message := textPreconditions
			if len(verdict.Messages) > 0 {
				message += "; " + strings.Join(verdict.Messages, "; ")
			}
			return policy.Yield{Status: policy.StatusSkip, Message: message}
		}
		return run(s)
	}
}

// failed is a result of status error.
func failed(prefix string, err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: prefix + err.Error()}
}
