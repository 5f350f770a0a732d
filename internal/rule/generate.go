package rule

import (
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

var generate = &Kind{
	Name:  "generate",
	Stage: policy.StageGenerate,
	Doc: "Creates other objects for a matching resource: with content from the policy (data), as a copy of another object (clone), " +
		"as copies of several (cloneList), or one for each element of a list (foreach). The result shows whether the rule matched; the objects are created in the background.",
	Owns:      func(r *kyvernov1.Rule) bool { return r.Generation != nil },
	lifecycle: newLifecycle,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		g := r.Generation
		make := c.generator(g, c.in.Path+".generate")
		work := policy.Work{
			Kind: policy.WorkGenerate, Synchronize: g.Synchronize,
			SkipBackground: skipsBackground(r),
		}
		return func(s *scope.Scope) policy.Yield {
			if s.Request.DryRun {
				return policy.Yield{Status: policy.StatusPass}
			}
			w := work
			if s.Plan {
				w.Planned = true
				w.Generated, w.Err = make(s)
			}
			return policy.Yield{Status: policy.StatusPass, Work: []policy.Work{w}}
		}
	},
}

// skipsBackground reports whether requests of the background controller do not cause work of the rule, which is the default.
func skipsBackground(r *kyvernov1.Rule) bool {
	return r.SkipBackgroundRequests == nil || *r.SkipBackgroundRequests
}

// generator returns the objects of a rule. If it returns an error, it also returns the objects before the error.
type generator func(*scope.Scope) ([]policy.Generated, error)

func (c *compiler) generator(g *kyvernov1.Generation, path string) generator {
	single := hasPattern(&g.GeneratePattern)
	switch {
	case single == (len(g.ForEachGeneration) > 0):
		c.diags.Errorf(path, "%s", textOnePattern)
		c.diags.Hint("write each of them as a rule of its own")
		return nil
	case single:
		return c.generatePattern(&g.GeneratePattern, path)
	}
	loops := make([]generator, len(g.ForEachGeneration))
	for i := range g.ForEachGeneration {
		loops[i] = c.generateLoop(&g.ForEachGeneration[i], i, path+".foreach["+strconv.Itoa(i)+"]")
	}
	return func(s *scope.Scope) ([]policy.Generated, error) {
		var out []policy.Generated
		for _, loop := range loops {
			made, err := loop(s)
			out = append(out, made...)
			if err != nil {
				return out, err
			}
		}
		return out, nil
	}
}

// generatePattern compiles one pattern: the identity and the content of the objects.
func (c *compiler) generatePattern(p *kyvernov1.GeneratePattern, path string) generator {
	if !c.checkGenerate(p, path) {
		return nil
	}
	switch {
	case p.Clone != (kyvernov1.CloneFrom{}):
		return c.generateClone(p, path)
	case hasCloneList(p):
		return c.generateCloneList(p, path)
	}
	return c.generateData(p, path) // without data, the object is empty, as for a ServiceAccount
}
