package classic

import (
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/wildcard"
)

// overrides checks that no namespace is set to both Audit and Enforce.
func (c *checker) overrides() {
	if len(c.spec.ValidationFailureActionOverrides) > 0 && namespaced(c.policy) {
		c.diags.Errorf("spec.validationFailureActionOverrides", "Use of validationFailureActionOverrides is supported only with ClusterPolicy")
		c.diags.Hint("a Policy has one namespace only: set failureAction in its rules, or write a ClusterPolicy")
	}
	c.conflicts(c.spec.ValidationFailureActionOverrides, "spec.validationFailureActionOverrides")
	for i := range c.spec.Rules {
		if v := c.spec.Rules[i].Validation; v != nil {
			c.conflicts(v.FailureActionOverrides, "spec.rules["+strconv.Itoa(i)+"].validate.failureActionOverrides")
		}
	}
}

func (c *checker) conflicts(in []kyvernov1.ValidationFailureActionOverride, path string) {
	for i, a := range in {
		for j := i + 1; j < len(in); j++ {
			b := in[j]
			if a.Action.IsEnforce() == b.Action.IsEnforce() {
				continue
			}
			at := path + "[" + strconv.Itoa(j) + "].namespaces"
			for _, n := range a.Namespaces {
				for _, m := range b.Namespaces {
					c.conflict(at, n, m)
				}
			}
		}
	}
}

const textConflict = "one override audits what the other enforces: remove the namespace from one of them"

// conflict reports two namespace patterns with different actions that may match the same namespace. Two patterns conflict if one of them
// matches the text of the other.
func (c *checker) conflict(path, a, b string) {
	prefix := "conflicting namespaces found in path: " + path + ": "
	switch wildA, wildB := wildcard.Has(a), wildcard.Has(b); {
	case a == b:
		c.diags.Errorf(path, "%s%s", prefix, a)
		c.diags.Hint("%s", textConflict)
	case wildA && wildB && (wildcard.Match(a, b) || wildcard.Match(b, a)):
		c.diags.Errorf(path, "%swildcard pattern '%s' conflicts with the pattern '%s'", prefix, a, b)
		c.diags.Hint("%s", textConflict)
	case wildA && !wildB && wildcard.Match(a, b):
		c.diags.Errorf(path, "%swildcard pattern '%s' matches with namespace '%s'", prefix, a, b)
		c.diags.Hint("%s", textConflict)
	case wildB && !wildA && wildcard.Match(b, a):
		c.diags.Errorf(path, "%swildcard pattern '%s' matches with namespace '%s'", prefix, b, a)
		c.diags.Hint("%s", textConflict)
	}
}
