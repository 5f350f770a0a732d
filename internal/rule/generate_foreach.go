package rule

import (
	"fmt"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

// generateLoop compiles one foreach entry, which consists of a list and a pattern for each of its elements. index is its index in the rule.
func (c *compiler) generateLoop(f *kyvernov1.ForEachGeneration, index int, path string) generator {
	l := &loop{list: c.list(f.List, path+".list")}
	outer := c.reads
	c.reads = scope.Reads{}
	l.context = c.context(f.Context, path+".context")
	if f.AnyAllConditions != nil {
		l.preconditions = c.conditionTree(anyAllTree(f.AnyAllConditions), path+".preconditions")
		c.diags.Add(l.preconditions.Deprecated()...)
	}
	one := c.generatePattern(&f.GeneratePattern, path)
	l.bind = newBinder(&c.reads, c.shared, l.list, 0)
	inner := c.reads
	c.reads = outer
	c.reads.AddLoop(l.list, inner, elementNames(0)...)
	if l.list == nil || one == nil {
		return nil
	}
	return func(s *scope.Scope) ([]policy.Generated, error) {
		elements, err := l.elements(s)
		if err != nil {
			return nil, fmt.Errorf("failed to evaluate %d foreach list: JMESPath query failed: %w", index, err)
		}
		var out []policy.Generated
		for i, element := range elements {
			if err := spendElement(s.Env.Meter); err != nil {
				return out, err
			}
			if element == nil {
				continue
			}
			made, err := generateElement(l.context.Apply(l.bind.apply(s, element, i)), l.preconditions, one)
			out = append(out, made...)
			if err != nil {
				return out, fmt.Errorf("failed to process %d foreach in rule %s: failed to process %d element: %w", index, s.Rule.Name, i, err)
			}
		}
		return out, nil
	}
}

func generateElement(s *scope.Scope, preconditions *condition.Set, one generator) ([]policy.Generated, error) {
	if preconditions != nil {
		verdict, err := preconditions.Eval(s.QueryEnv(), s)
		if err != nil {
			return nil, fmt.Errorf("failed to evaluate preconditions: %w", err)
		}
		if !verdict.OK {
			return nil, nil
		}
	}
	return one(s)
}
