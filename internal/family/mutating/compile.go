package mutating

import (
	"context"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// RuleKind is the kind of the rules of the family.
const RuleKind policy.RuleKind = "mutatingPolicy"

// Compile returns the Program of a policy. Program.Diags holds the mistakes; do not use a Program with an error among them.
func Compile(p *policiesv1beta1.MutatingPolicy, o family.Options) *policy.Program {
	common := celpolicy.Common{FailurePolicy: p.Spec.FailurePolicy, Webhook: p.Spec.WebhookConfiguration}
	if e := p.Spec.Evaluation; e != nil {
		common.Admission, common.Background = e.Admission, e.Background
	}
	b := &builder{
		program: celpolicy.Outline(p.TypeMeta, p.ObjectMeta, common), spec: &p.Spec,
		onlyAsked: p.Annotations[celpolicy.OnPolicyUpdateAnnotation] == "false",
		allowance: o.Within(), merging: celrule.Merging{Types: types(o, &p.Spec)},
	}
	if e := p.Spec.Evaluation; e != nil && e.UseServerSideApply != nil {
		b.merging.Atomics = *e.UseServerSideApply
	}
	if o.Existing {
		b.report()
	} else {
		b.requests(o.CommandLine, o.Targets)
	}
	for i, r := range b.program.Rules {
		r.Index = i
	}
	b.program.Diags = b.diags
	if len(b.program.Rules) > 0 {
		b.program.Webhooks = []policy.Webhook{webhook(b.program, &p.Spec)}
	}
	return b.program
}

// types returns the types of known kinds if an apply configuration needs them. It does not wait until they are loaded, because the policy would
// not be enforced in the meantime.
func types(o family.Options, spec *policiesv1beta1.MutatingPolicySpec) managedfields.TypeConverter {
	merges := slices.ContainsFunc(spec.Mutations, func(m admissionregistrationv1.Mutation) bool {
		return m.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration
	})
	if !merges || o.Types == nil {
		return celrule.Types(nil)
	}
	return celrule.LaterTypes(o.Types)
}

// builder builds the rules of one Program.
type builder struct {
	program   *policy.Program
	spec      *policiesv1beta1.MutatingPolicySpec
	onlyAsked bool // it is not executed for existing triggers when the policy changes
	allowance *compilecost.Allowance
	merging   celrule.Merging
	diags     diag.List
}

// requests adds the rules that change the objects of requests, and the rule that changes existing resources. A policy with targets does
// not change requests. As in Kyverno, the command line changes only the given objects, and also targets if a test gives them.
func (b *builder) requests(commandLine, targets bool) {
	changes := changesExisting(b.spec)
	if targets && targeted(b.spec) {
		commandLine = false
	}
	if targeted(b.spec) {
		switch {
		case commandLine:
			b.diags.Warnf("spec.targetMatchConstraints", "existing resources are changed in a cluster only")
			b.diags.Hint("the policy changes nothing here")
		case !changes:
			b.diags.Warnf("spec.targetMatchConstraints", "existing resources are changed only with evaluation.mutateExisting.enabled")
			b.diags.Hint("the policy changes nothing, and does not become ready")
		}
	} else {
		b.inRequests()
	}
	if changes && !commandLine {
		b.existing()
	} else if targeted(b.spec) || len(b.spec.TargetMatchConditions) > 0 {
		rules := b.program.Rules
		b.existing() // to report its mistakes
		b.program.Rules = rules
	}
}

// inRequests adds the rules that change the objects of requests.
func (b *builder) inRequests() {
	b.variants(func(r *policy.Rule, v *variant) {
		r.Stage, r.SkipOnDelete, r.Eval = policy.StageMutate, true, v.eval
	})
}

// report adds the rules that report what the policy would change. A policy with targets changes no matched resource: scans do not evaluate
// its rule, and its results are those of the work on its targets.
func (b *builder) report() {
	b.variants(func(r *policy.Rule, v *variant) {
		r.Stage, r.Eval, r.ReportsTargets = policy.StageValidate, v.wouldChange, changesExisting(b.spec)
		if targeted(b.spec) {
			r.NoScan = true
			r.Match = func(context.Context, *policy.Request) (bool, error) { return false, nil }
		}
	})
}

// variants adds a rule for the policy itself, and one for each configuration of Pod controllers.
func (b *builder) variants(finish func(*policy.Rule, *variant)) {
	v, c := b.compile(b.spec, "spec")
	b.diags.Add(c.Diags...)
	b.add(v, c, "", finish)
	var settings *policiesv1beta1.PodControllers
	if b.spec.Autogen != nil {
		settings = b.spec.Autogen.PodControllers
	}
	for _, config := range celpolicy.Configs(b.spec.MatchConstraints, settings) {
		v, c := b.compile(generated(b.spec, config), "status.autogen.configs["+config.Key+"].spec")
		if !b.diags.HasErrors() { // otherwise the mistakes are already reported
			b.diags.Add(c.Diags...)
		}
		v.extracts = config.Template == ""
		b.add(v, c, config.Key, finish)
	}
}

func (b *builder) add(v *variant, c *celrule.Compiler, key string, finish func(*policy.Rule, *variant)) {
	r := v.subject.NewRule(c)
	r.Kind, r.OnError, r.Object = RuleKind, policy.ErrorByOwn, nil // the rule writes the object as a whole
	r.Origin = celpolicy.Origin(key)
	finish(r, v)
	b.program.Rules = append(b.program.Rules, r)
}

// compile compiles a spec.
func (b *builder) compile(spec *policiesv1beta1.MutatingPolicySpec, path string) (*variant, *celrule.Compiler) {
	subject, c := celpolicy.Compile(b.program, celpolicy.Input{
		Kind: env.Mutating, Constraints: spec.MatchConstraints, Conditions: spec.MatchConditions, Variables: spec.Variables, VariablesFirst: true,
		Allowance: b.allowance, Path: path, Trigger: changesExisting(spec),
	})
	v := &variant{subject: subject, merging: b.merging, mutations: c.Mutations(spec.Mutations, path+".mutations")}
	for i := range spec.AuditAnnotations {
		subject.Rule.Annotations = append(subject.Rule.Annotations, c.Annotation(&spec.AuditAnnotations[i], path+".auditAnnotations["+strconv.Itoa(i)+"]"))
	}
	return v, c
}

// changesExisting reports whether the policy changes existing resources.
func changesExisting(spec *policiesv1beta1.MutatingPolicySpec) bool {
	e := spec.Evaluation
	return e != nil && e.MutateExisting != nil && e.MutateExisting.Enabled != nil && *e.MutateExisting.Enabled
}

// targeted reports whether the policy has targets among existing objects.
func targeted(spec *policiesv1beta1.MutatingPolicySpec) bool {
	t := spec.TargetMatchConstraints
	return t != nil && (t.Expression != "" || len(t.ResourceRules) > 0)
}
