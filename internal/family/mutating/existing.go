package mutating

import (
	"context"
	"errors"
	"slices"
	"strings"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/constraint"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// existing changes existing resources: for a trigger, or without a trigger after a change of the policy.
type existing struct {
	*variant
	// target evaluates the conditions and mutations of one target.
	target celrule.Rule
	// expression returns the targets. It is nil if the targets are all resources that the constraints select.
	expression  *run.Expression
	constraints *constraint.Constraints
	work        policy.Work
}

// existing adds the rule that changes existing resources.
func (b *builder) existing() {
	v, c := b.compile(b.spec, "spec")
	x := &existing{variant: v, work: policy.Work{Kind: policy.WorkMutateExisting, SkipBackground: skipsBackground(b.spec)}}
	conditions := c.Conditions(b.spec.TargetMatchConditions, "spec.targetMatchConditions")
	t, own := b.spec.TargetMatchConstraints, false
	if t != nil && t.Expression != "" {
		x.expression = c.Expression(t.Expression, "spec.targetMatchConstraints.expression", typecheck.Map, typecheck.Dyn)
	}
	if t != nil && (x.expression != nil || len(t.ResourceRules) > 0) {
		constraints, diags := constraint.Compile(&t.MatchResources, "spec.targetMatchConstraints", constraint.Options{})
		x.constraints = constraints
		b.diags.Add(diags...)
	} else {
		// Mistakes in matchConstraints are already reported. An object that requests cannot select is not a target either.
		x.constraints, _ = constraint.Compile(b.spec.MatchConstraints, "spec.matchConstraints", constraint.Options{})
		own = true
	}
	if !targeted(b.spec) { // the rules for requests report the other mistakes
		c.Diags = slices.DeleteFunc(c.Diags, func(d diag.Diagnostic) bool { return !strings.HasPrefix(d.Path, "spec.targetMatch") })
	}
	b.diags.Add(c.Diags...)
	r := v.subject.NewRule(c)
	r.Kind, r.OnError, r.Object, r.Stage = RuleKind, policy.ErrorByOwn, nil, policy.StageMutateExisting
	r.OnPolicyChange = !b.onlyAsked
	r.WithoutTrigger, r.OnBackground, r.ReportsTargets = x.expression == nil, !x.work.SkipBackground, true
	r.OldContent = b.oldContent(r)
	r.Match, r.Eval = x.match(r.Match), x.eval
	if r.Foreseen = x.grants(b.program); b.program.Namespace != "" {
		r.Grants = r.Foreseen // the author needs them too
	}
	x.target = v.subject.Rule
	x.target.Conditions = conditions
	if own {
		x.target.Conditions = append(x.target.Conditions[:len(x.target.Conditions):len(x.target.Conditions)], v.subject.Rule.Conditions...)
	}
	b.program.Rules = append(b.program.Rules, r)
}

// oldContent returns which parts of the policy read the content of an object that is not there any more.
func (b *builder) oldContent(r *policy.Rule) policy.OldContent {
	mutations := celpolicy.Part{Compile: func(c *celrule.Compiler) { c.Mutations(b.spec.Mutations, "") }, OnTarget: true}
	for i := range b.spec.Mutations {
		m := &b.spec.Mutations[i]
		if m.JSONPatch != nil {
			mutations.Texts = append(mutations.Texts, m.JSONPatch.Expression)
		}
		if m.ApplyConfiguration != nil {
			mutations.Texts = append(mutations.Texts, m.ApplyConfiguration.Expression)
		}
	}
	conditions := celpolicy.ConditionsPart(b.spec.TargetMatchConditions)
	conditions.OnTarget = true
	parts := []celpolicy.Part{conditions, mutations}
	if t := b.spec.TargetMatchConstraints; t != nil && t.Expression != "" {
		parts = append(parts, celpolicy.Part{Compile: func(c *celrule.Compiler) { c.Expression(t.Expression, "", typecheck.Map, typecheck.Dyn) }, Texts: []string{t.Expression}})
	}
	declared := env.Declarations{Kind: env.Mutating, Namespaced: b.program.Namespace != "", Trigger: true}
	return celpolicy.OldContent(declared, r, b.spec.Variables, celpolicy.ConditionsPart(b.spec.MatchConditions), parts...)
}

func skipsBackground(spec *policiesv1beta1.MutatingPolicySpec) bool {
	e := spec.Evaluation
	return e == nil || e.SkipBackgroundRequests == nil || *e.SkipBackgroundRequests
}

// match treats an existing object as an update. A change of the policy needs no trigger.
func (x *existing) match(next func(context.Context, *policy.Request) (bool, error)) func(context.Context, *policy.Request) (bool, error) {
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		if isBare(r) {
			return true, nil
		}
		return next(ctx, triggerOf(r))
	}
}

// isBare reports whether the work has no trigger.
func isBare(r *policy.Request) bool {
	return r.Origin == policy.FromScan && r.Object == nil && r.OldObject == nil
}

// triggerOf returns the request of the trigger. For an existing object this is an update.
func triggerOf(r *policy.Request) *policy.Request {
	if r.Origin != policy.FromScan {
		return r
	}
	out := r.WithObject(r.Object)
	out.Operation, out.OldObject = policy.Update, r.Object
	return out
}

// eval returns work if the conditions are true for the trigger, and plans the work if the call requests a plan.
func (x *existing) eval(c *policy.Call) policy.Yield {
	bare := isBare(c.Request)
	trigger := *c
	trigger.Request = triggerOf(c.Request)
	var allowed run.Exceptions
	if !bare {
		exemption, err := celpolicy.ExemptTrigger(&trigger)
		switch {
		case err != nil:
			return failed(err)
		case exemption.Full.Status != policy.StatusNone:
			return exemption.Full
		}
		allowed = exemption.Allowed
		in, err := input(&trigger)
		if err != nil {
			return failed(err)
		}
		in.Exceptions = allowed
		if c.Request.Held {
			// The conditions held at admission, and cannot be evaluated again.
		} else if ok, err := x.subject.Rule.Begin(c.Context(), c.Meter, in).Applies(); err != nil {
			return failed(err)
		} else if !ok {
			return policy.Yield{}
		}
	}
	switch {
	case c.Request.DryRun:
		return policy.Yield{}
	case !c.Plan:
		return policy.Yield{Work: []policy.Work{x.work}}
	}
	work := x.work
	work.Planned = true
	y := policy.Yield{Status: policy.StatusPass, Message: textMutated}
	found, err := x.find(&trigger, allowed, bare)
	if err != nil {
		y = failed(err)
		work.Err = errors.New(y.Message)
	}
	for _, t := range found {
		m := x.change(&trigger, t, allowed, bare)
		work.Targets = append(work.Targets, m)
		if m.Status == policy.StatusError && y.Status != policy.StatusError {
			y = policy.Yield{Status: policy.StatusError, Message: m.Message, Part: celpolicy.PartEvaluation}
		}
	}
	if y.Status == policy.StatusPass && len(work.Targets) == 0 {
		y = policy.Yield{}
	}
	y.Work = []policy.Work{work}
	return y
}

// input returns the variables for the trigger. For a deleted object they hold its last state.
func input(c *policy.Call) (*run.Input, error) {
	in, err := celrule.Policies.Input(c)
	if err != nil {
		return nil, err
	}
	if c.Request.Operation == policy.Delete {
		in.Object = in.OldObject
	}
	in.Trigger = run.Trigger{Object: in.Object, OldObject: in.OldObject}
	return in, nil
}

// change plans the mutation of one target. In expressions, the object is the target and the request is that of the trigger.
func (x *existing) change(c *policy.Call, t found, allowed run.Exceptions, bare bool) policy.Mutated {
	out := policy.Mutated{Before: t.object, Subresource: t.request.Subresource, Status: policy.StatusSkip}
	fail := func(err error) policy.Mutated {
		y := failed(err)
		out.Status, out.Message = y.Status, y.Message
		if evaluation := (*env.EvaluationError)(nil); errors.As(err, &evaluation) {
			out.Message += "\nIn this expression, object is the target " + nameOf(t.request) + "; the object that triggered the policy is trigger.object."
		}
		return out
	}
	on := *c
	if bare {
		on.Request = t.request
	}
	in, err := celrule.Policies.Input(&on)
	if err != nil {
		return fail(err)
	}
	trigger, err := input(c)
	if err != nil {
		return fail(err)
	}
	in.Trigger = trigger.Trigger
	in.Object, in.Exceptions, in.Source = t.object, allowed, withoutNamespace{in.Source}
	run := x.target.Begin(c.Context(), c.Meter, in)
	if ok, err := run.Applies(); err != nil {
		return fail(err)
	} else if !ok {
		return out
	}
	for _, m := range x.mutations {
		if err := run.Mutate(m, x.merging); err != nil {
			return fail(err)
		}
	}
	equal, err := c.Meter.Equal(t.object, run.Object())
	if err != nil {
		return fail(err)
	}
	out.Status, out.Message = policy.StatusPass, textMutated
	if after, ok := run.Object().(map[string]any); ok && !equal {
		out.After = after
	}
	return out
}

// nameOf returns the name of the object of a request, for messages.
func nameOf(r *policy.Request) string {
	return r.GVK.GroupVersion().String() + " " + r.GVK.Kind + " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
}

// withoutNamespace sets namespaceObject to null, as in Kyverno, because the namespace could be that of the trigger or that of the target.
type withoutNamespace struct{ run.Source }

func (withoutNamespace) Namespace() (any, error) { return nil, nil }

// unknown is the placeholder in a grant for a value that is only known after an evaluation.
const unknown = "{{ evaluated }}"

// grants returns the rights that are needed on the targets. If an expression selects the targets, these are rights on every resource.
func (x *existing) grants(p *policy.Program) (out []policy.Grant) {
	grant := policy.Grant{Namespace: p.Namespace, Verbs: []string{"get", "list", "update"}, Path: "spec.targetMatchConstraints"}
	if x.expression != nil {
		grant.APIVersion, grant.Kind = unknown, unknown
		return []policy.Grant{grant}
	}
	for _, t := range x.constraints.Targets() {
		grant.APIVersion, grant.Kind, grant.ByResource = t.Version, t.Resource, true
		if t.Group != "" {
			grant.APIVersion = t.Group + "/" + t.Version
		}
		if t.Subresource != "" {
			grant.Kind += "/" + t.Subresource
		}
		if strings.Contains(grant.APIVersion+grant.Kind, "*") {
			grant.APIVersion, grant.Kind, grant.ByResource = unknown, unknown, false
		}
		out = append(out, grant)
	}
	return out
}

// found is a target: an object read from the API server, and the request that would update it.
type found struct {
	object  map[string]any
	request *policy.Request
}

func requestFor(c *policy.Call, operation policy.Operation, object map[string]any) *policy.Request {
	metadata, _ := object["metadata"].(map[string]any)
	text := func(field string) string { s, _ := metadata[field].(string); return s }
	r := &policy.Request{Review: policy.Review{
		Origin: policy.FromScan, Operation: operation, Namespace: text("namespace"), Name: text("name"), Object: value.Of(object), OldObject: value.Of(object),
		Conf: c.Request.Conf,
	}}
	r.ResolveNamespace = func(ctx context.Context) (map[string]string, error) {
		if r.Namespace == "" || c.World.Namespaces.Labels == nil {
			return nil, nil
		}
		return c.World.Namespaces.Labels(ctx, world.NamespaceRequest(r.Namespace))
	}
	return r
}
