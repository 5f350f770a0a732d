package deleting

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// RuleKind is the kind of the only rule of a Program of this family.
const RuleKind policy.RuleKind = "deletingPolicy"

// Texts of results, Kyverno's, verbatim.
const (
	TextMatched    = "resource matched"
	TextNotMatched = "resource did not match"
)

// Compile returns the Program of a policy. Program.Diags holds the mistakes; do not use a Program with an error among them.
func Compile(p *policiesv1beta1.DeletingPolicy, o family.Options) *policy.Program {
	spec := &p.Spec
	out := celpolicy.Outline(p.TypeMeta, p.ObjectMeta, celpolicy.Common{})
	out.Settings.FailurePolicy, out.Settings.Admission, out.Settings.Background = policy.Ignore, false, false // neither requests nor scans evaluate it
	out.Unconfined = o.CommandLine && out.Namespace != ""
	subject, c := celpolicy.Compile(out, celpolicy.Input{
		Kind: env.Deleting, Constraints: spec.MatchConstraints, AnyOperation: true, Conditions: spec.Conditions, ConditionsPath: "spec.conditions",
		Variables: spec.Variables, VariablesFirst: true, Allowance: o.Within(),
	})
	switch d := spec.DeletionPropagationPolicy; {
	case d == nil, *d == metav1.DeletePropagationForeground, *d == metav1.DeletePropagationBackground, *d == metav1.DeletePropagationOrphan:
	default:
		c.Diags.Unsupported("spec.deletionPropagationPolicy", string(*d), []string{"Background", "Foreground", "Orphan"})
	}
	var mistakes diag.List
	out.Schedule, mistakes = parseSchedule(spec.Schedule)
	c.Diags.Add(mistakes...)
	d := &deletion{subject: subject, work: policy.Work{Kind: policy.WorkDelete}}
	if spec.DeletionPropagationPolicy != nil {
		d.work.Propagation = string(*spec.DeletionPropagationPolicy)
	}
	rule := subject.NewRule(c)
	rule.Name, rule.Kind, rule.Stage = out.Name, RuleKind, policy.StageDelete
	rule.Offline = policy.Offline{Whole: true}
	if spec.MatchConstraints == nil { // no resource is selected, and documents of the command line need no constraints
		rule.Match = func(_ context.Context, r *policy.Request) (bool, error) { return r.Payload == policy.JSONPayload, nil }
	}
	rule.Eval = d.eval
	out.Rules, out.Diags = []*policy.Rule{rule}, c.Diags
	return out
}

// options are those of the language. As in Kyverno, a Namespace is its own namespaceObject.
var options = func() celrule.Options { o := celrule.Policies; o.OwnNamespace = true; return o }()

// deletion is a compiled policy.
type deletion struct {
	subject *celpolicy.Subject
	work    policy.Work
}

// eval passes for an object to delete. An exempted object is not deleted and has no result.
func (d *deletion) eval(c *policy.Call) policy.Yield {
	exemption, err := celpolicy.ExemptFromDeletion(c)
	if err != nil {
		y := failed(err)
		y.Unknown = true // the error says nothing about the policy
		return y
	}
	if exemption.Full.Status != policy.StatusNone || len(exemption.Allowed.AllowedImages)+len(exemption.Allowed.AllowedValues) > 0 {
		return policy.Yield{}
	}
	in, err := options.Input(c)
	if err != nil {
		return failed(err)
	}
	ok, err := d.subject.Rule.Begin(c.Context(), c.Meter, in).Applies()
	switch {
	case err != nil:
		return failed(err)
	case !ok:
		return policy.Yield{Status: policy.StatusFail, Message: TextNotMatched}
	}
	return policy.Yield{Status: policy.StatusPass, Message: TextMatched, Work: []policy.Work{d.work}}
}

func failed(err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: celpolicy.Text(err), Cause: err}
}
