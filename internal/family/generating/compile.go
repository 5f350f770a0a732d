package generating

import (
	"errors"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/constraint"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// RuleKind is the kind of the only rule of a Program of this family.
const RuleKind policy.RuleKind = "generatingPolicy"

// generator is a compiled policy.
type generator struct {
	subject *celpolicy.Subject
	steps   []step
	work    policy.Work
	// objects selects triggers regardless of the operation; nil selects none. In a namespaced policy it selects only objects of the policy's
	// namespace.
	objects   *constraint.Constraints
	namespace string
}

// step is an entry of spec.generate: an expression, or a template.
type step struct {
	expression *run.Expression
	template   template
}

// Compile returns the Program of a policy. Program.Diags holds the mistakes; do not use a Program with an error among them.
func Compile(p *policiesv1beta1.GeneratingPolicy, o family.Options) *policy.Program {
	spec, e := &p.Spec, p.Spec.Evaluation
	if e == nil {
		e = &policiesv1beta1.GeneratingPolicyEvaluation{}
	}
	ignore := admissionregistrationv1.Ignore // it never denies a request
	out := celpolicy.Outline(p.TypeMeta, p.ObjectMeta, celpolicy.Common{FailurePolicy: &ignore, Webhook: spec.WebhookConfiguration, Admission: e.Admission})
	out.Settings.Background = false // requests and changes of the policy trigger the work, scans do not
	subject, c := celpolicy.Compile(out, celpolicy.Input{
		Kind: env.Generating, Constraints: spec.MatchConstraints, Conditions: spec.MatchConditions, Variables: spec.Variables, Allowance: o.Within(),
	})
	g := &generator{subject: subject, namespace: out.Namespace}
	if spec.MatchConstraints != nil {
		g.objects, _ = constraint.Compile(spec.MatchConstraints, "spec.matchConstraints", constraint.Options{GenerateNames: true, AnyOperation: true})
	}
	g.compile(c, spec.Generate)
	for i := range spec.AuditAnnotations {
		subject.Rule.Annotations = append(subject.Rule.Annotations, c.Annotation(&spec.AuditAnnotations[i], "spec.auditAnnotations["+strconv.Itoa(i)+"]"))
	}
	rule := subject.NewRule(c)
	rule.Name, rule.Kind, rule.Stage, rule.OnError = out.Name, RuleKind, policy.StageGenerate, policy.ErrorByOwn
	rule.Generation = &policy.Generation{
		Existing: on(e.GenerateExisting), Synchronize: on(e.Synchronize), Orphan: on(e.OrphanDownstreamOnPolicyDelete),
		ServerSideApply: spec.UseServerSideApply != nil && *spec.UseServerSideApply,
		Own:             out.Namespace != "" || p.Annotations[celpolicy.ReplaceExistingAnnotation] != "true", Exact: true, Watched: true, KeepCopies: e.OrphanDownstreamOnPolicyDelete == nil, ReportsExempt: true,
	}
	rule.OnBackground = e.SkipBackgroundRequests != nil && !*e.SkipBackgroundRequests
	g.work = policy.Work{Kind: policy.WorkGenerate, Synchronize: rule.Generation.Synchronize, SkipBackground: !rule.OnBackground}
	rule.Eval = g.eval
	rule.OldContent = oldContent(spec, rule, out.Namespace != "")
	g.follow(rule)
	rule.Grants, rule.Foreseen = g.grants(spec.Generate), g.foreseen(c.Objects(), rule.Generation)
	out.Rules = []*policy.Rule{rule}
	out.Diags.Add(c.Diags...)
	out.Webhooks = []policy.Webhook{celpolicy.Webhook(out, celpolicy.WebhookInput{
		At: endpoints, Constraints: spec.MatchConstraints, Conditions: spec.MatchConditions, Always: true, Updates: rule.Generation.Synchronize,
	})}
	return out
}

// oldContent returns which parts of the policy read the content of an object that is not there any more.
func oldContent(spec *policiesv1beta1.GeneratingPolicySpec, rule *policy.Rule, namespaced bool) policy.OldContent {
	part := celpolicy.Part{Compile: func(c *celrule.Compiler) { new(generator).compile(c, spec.Generate) }}
	for i := range spec.Generate {
		part.Texts = append(part.Texts, spec.Generate[i].Expression)
		if t := spec.Generate[i].Template; t != nil {
			part.Texts = append(part.Texts, t.Value)
		}
	}
	declared := env.Declarations{Kind: env.Generating, Namespaced: namespaced}
	return celpolicy.OldContent(declared, rule, spec.Variables, celpolicy.ConditionsPart(spec.MatchConditions), part)
}

func on(s *policiesv1beta1.SwitchOff) bool { return s != nil && s.Enabled != nil && *s.Enabled }

// These texts are Kyverno's, verbatim.
const (
	textOne  = "only one of expression or template may be set"
	textNone = "one of expression or template must be set"
)

// compile compiles the entries of spec.generate.
func (g *generator) compile(c *celrule.Compiler, in []policiesv1beta1.Generation) {
	if len(in) == 0 {
		c.Diags.Required("spec.generate", "a policy needs at least one entry in spec.generate")
	}
	for i := range in {
		at := "spec.generate[" + strconv.Itoa(i) + "]"
		switch x := &in[i]; {
		case x.Expression != "" && x.Template != nil:
			c.Diags.Errorf(at, textOne)
		case x.Expression != "":
			g.steps = append(g.steps, step{expression: c.Expression(x.Expression, at+".expression", typecheck.Bool)})
		case x.Template == nil:
			c.Diags.Errorf(at, textNone)
		default:
			g.steps = append(g.steps, step{template: templateOf(c, x.Template, at+".template")})
		}
	}
}

func templateOf(c *celrule.Compiler, in *policiesv1beta1.GenerationTemplate, path string) template {
	expression := func(text string) (*run.Expression, error) {
		x, err := c.Compile(text, typecheck.Any)
		if mistakes := (*typecheck.CompileError)(nil); errors.As(err, &mistakes) {
			err = errors.New(mistakes.Text())
		}
		return x, err
	}
	switch in.Interpolate {
	case "", "none":
		expression = nil
	case "cel":
	default:
		c.Diags.Unsupported(path+".interpolate", in.Interpolate, []string{"none", "cel"})
	}
	t, mistakes := compileTemplate(in.Value, expression)
	for _, m := range mistakes {
		c.Diags.Invalid(path+".value", in.Value, m.Error())
	}
	return t
}
