// Package celpolicy holds the common parts of the families of policies.kyverno.io: policies that are written in CEL, with match
// constraints, match conditions, variables, evaluation switches, and exceptions of their own.
//
//	p, diags := &policiesv1beta1.ValidatingPolicy{}, diag.List(nil)
//	diags.Add(celpolicy.Decode(object, p, kinds)...)
//	program := celpolicy.Outline(p.TypeMeta, p.ObjectMeta, celpolicy.Common{FailurePolicy: p.Spec.FailurePolicy, …})
//	subject, c := celpolicy.Compile(program, celpolicy.Input{Kind: env.Validating, Constraints: p.Spec.MatchConstraints, …})
//	c.Validation(…)                                     // the family's own expressions
//	rule := subject.NewRule(c)                          // sets Match, Targets, Needs and Object; the family sets Eval
//
// During the evaluation of a request, Exempt evaluates the exceptions of the rule, and Text formats errors of expressions. Configs
// and Rewrite generate the policies for Pod controllers by rewriting texts; Templates finds the Pod templates of other objects.
//
// It does not know the kinds of policies: each family has a folder beside this one.
//
// Floor 2: imports constraint, celrule, family, policy, api and leaves.
package celpolicy
