package celpolicy

import (
	"cmp"
	"context"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/constraint"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Input is the input of Compile.
type Input struct {
	// Kind and Mode are the environment of its expressions.
	Kind env.Kind
	Mode env.Mode
	// Payload is the type of documents that the policy evaluates on the command line; NoPayload for Kubernetes objects. A policy in Mode
	// JSON has JSONPayload.
	Payload policy.Payload
	// Constraints are spec.matchConstraints. Without constraints a policy matches nothing. A policy for documents (Payload) ignores them:
	// it matches every document on the command line, and nothing in a cluster.
	Constraints *admissionregistrationv1.MatchResources
	// AnyOperation: the constraints select objects, not requests, and ignore the operation.
	AnyOperation bool
	Conditions   []admissionregistrationv1.MatchCondition
	// ConditionsPath is the field of the policy that holds the conditions; the default is spec.matchConditions.
	ConditionsPath string
	// VariablesFirst: the conditions may use variables.
	VariablesFirst bool
	Variables      []admissionregistrationv1.Variable
	// Trigger: expressions may read the object of the request as trigger.object, also where object is another one.
	Trigger bool
	// Allowance limits the expressions of the policy as a whole, including those of generated rules.
	Allowance *compilecost.Allowance
	// Path is the path of the spec in the policy; the default is "spec".
	Path string
	// Subresources: a policy on Pods also selects the subresources that change the containers of Pods (Subject.Unlisted).
	Subresources bool
}

// Subject is the compiled selection of a policy: constraints, conditions and variables. It is immutable after NewRule.
type Subject struct {
	// Rule holds the conditions and variables, and the expressions of the family.
	Rule celrule.Rule

	constraints *constraint.Constraints // nil selects nothing, or everything if payload is set
	payload     policy.Payload          // on the command line, the policy evaluates all documents of this type
	mistakes    diag.List               // mistakes in the constraints, which make every match an error
	namespace   string                  // the namespace of a namespaced policy
	// subresources selects further subresources of Pods; nil for none.
	subresources *subresources
}

// Compile compiles constraints, conditions and variables. The family compiles its own expressions with the returned Compiler, whose Diags
// hold all mistakes.
func Compile(p *policy.Program, in Input) (*Subject, *celrule.Compiler) {
	if in.Mode == env.JSON {
		in.Payload = policy.JSONPayload
	}
	documents := in.Payload != policy.NoPayload
	s := &Subject{namespace: p.Namespace}
	if p.Unconfined {
		s.payload, s.namespace = in.Payload, ""
	}
	path := cmp.Or(in.Path, "spec")
	c := celrule.New(env.Declarations{Kind: in.Kind, Mode: in.Mode, Namespaced: p.Namespace != "", Trigger: in.Trigger}, in.Allowance)
	if in.Constraints != nil && !documents {
		constraints, diags := constraint.Compile(in.Constraints, path+".matchConstraints", constraint.Options{GenerateNames: !in.AnyOperation, AnyOperation: in.AnyOperation})
		s.constraints, s.mistakes = constraints, diags.Errors()
		c.Diags.Add(diags...)
		if in.Subresources {
			s.addSubresources(p, in.Constraints)
		}
	}
	s.Rule.Options = celrule.Policies
	conditions := func() {
		s.Rule.Conditions = c.Conditions(in.Conditions, cmp.Or(in.ConditionsPath, path+".matchConditions"))
	}
	if !in.VariablesFirst {
		conditions()
	}
	c.Variables(in.Variables, path+".variables")
	if in.VariablesFirst {
		conditions()
	}
	return s, c
}

// NewRule returns a rule of the policy without Eval. Call it after all expressions of the policy are compiled.
func (s *Subject) NewRule(c *celrule.Compiler) *policy.Rule {
	s.Rule.Named = c.Named()
	r := &policy.Rule{
		Path:     "spec",
		Matching: policy.Matching{Match: s.match},
		Reads:    policy.Reads{Needs: c.Needs(), Object: policy.ObjectReads(c.Object()), Content: policy.ContentReads(c.Object()), Services: c.Calls("http"), Globals: c.Calls("globalContext")},
	}
	if s.constraints != nil {
		r.Needs.Merge(s.constraints.Needs())
		r.Targets, r.Excludes, r.Labels = s.constraints.Targets(), s.constraints.Excludes(), s.constraints.Labels()
		if x := s.subresources; x != nil {
			r.Targets, r.Excludes = x.targets(r.Targets), x.constraints.Excludes()
		}
	} else if s.payload != policy.NoPayload {
		r.Targets = []policy.Target{{Group: "*", Version: "*", Resource: "*", Subresource: "*"}}
		r.Payload = s.payload
	}
	return r
}

// Broken returns the Eval of a rule whose policy has mistakes. It returns an error, so that a stored policy with a mistake never seems to
// pass.
func Broken(mistakes diag.List) func(*policy.Call) policy.Yield {
	texts := make([]string, 0, len(mistakes))
	for _, d := range mistakes.Errors() {
		texts = append(texts, d.Path+": "+d.Summary)
	}
	message := value.Message("failed to compile policy: " + strings.Join(texts, ", "))
	return func(*policy.Call) policy.Yield {
		return policy.Yield{Status: policy.StatusError, Message: message, Part: PartEvaluation}
	}
}

// match reports whether the constraints select the request. A namespaced policy selects only its own namespace.
func (s *Subject) match(ctx context.Context, r *policy.Request) (bool, error) {
	switch {
	case s.namespace != "" && r.ObjectNamespace() != s.namespace:
		return false, nil
	case len(s.mistakes) > 0:
		return false, s.mistakes
	case s.constraints == nil:
		return s.payload != policy.NoPayload, nil
	case s.Unlisted(r):
		return s.subresources.constraints.Match(ctx, r)
	}
	return s.constraints.Match(ctx, r)
}
