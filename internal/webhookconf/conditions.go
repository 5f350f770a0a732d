package webhookconf

import (
	"fmt"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

// Conditions checks match conditions as the API server does. Because of one that it rejects, it would reject every update of the
// configuration. It is safe for concurrent use; nil checks nothing.
type Conditions struct {
	// Version returns the oldest version with which the API server stays compatible.
	Version func() discovery.Version

	mu      sync.Mutex
	version discovery.Version // the version of the results
	results map[string]error
}

// maxResults is the maximum number of remembered results, and maxRemembered the maximum length of their expressions.
const (
	maxResults    = 4096
	maxRemembered = 4096
)

// Check returns the reason why the API server would reject the condition, nil if it accepts the condition.
func (c *Conditions) Check(expression string) error {
	if c == nil {
		return nil
	}
	version := c.Version()
	c.mu.Lock()
	if c.version != version || len(c.results) >= maxResults {
		c.version, c.results = version, map[string]error{}
	}
	err, known := c.results[expression]
	c.mu.Unlock()
	if known {
		return err
	}
	if err = typecheck.Condition(version.Major, version.Minor, expression); err != nil {
		err = fmt.Errorf("the API server, which is compatible with version %d.%d, does not accept it: %s", version.Major, version.Minor, typecheck.Summary(err))
	}
	if len(expression) > maxRemembered {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == version {
		c.results[strings.Clone(expression)] = err
	}
	return err
}

// conditionsPath is the field of a policy whose match conditions are those of its webhook.
const conditionsPath = "spec.webhookConfiguration.matchConditions"

// refused returns the first condition of a policy's webhook that the API server does not accept. Conditions of policies that select with
// the fields of a webhook are not considered: if they are not sent, Ephor evaluates them.
func (c *Conditions) refused(w *policy.Webhook) (index int, err error) {
	if w.Selection != nil {
		return 0, nil
	}
	for i, m := range w.Conditions {
		if err := c.Check(m.Expression); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// compiling returns the conditions that compile.
func compiling(in []policy.MatchCondition) (out []policy.MatchCondition) {
	compiler := compiler.New(env.Declarations{})
	for _, c := range in {
		if _, err := compiler.Compile(c.Expression, typecheck.Bool); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// CheckConditions returns the ConfigMap's match conditions that the API server accepts, and the mistakes in the others.
func CheckConditions(in []settings.MatchCondition, server *Conditions) (usable []settings.MatchCondition, mistakes []error) {
	compiler := compiler.New(env.Declarations{})
	for _, c := range in {
		_, err := compiler.Compile(c.Expression, typecheck.Bool)
		if err == nil {
			err = server.Check(c.Expression)
		}
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("match condition %s: %s", c.Name, typecheck.Summary(err)))
			continue
		}
		usable = append(usable, c)
	}
	return usable, mistakes
}
