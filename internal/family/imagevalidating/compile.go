package imagevalidating

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Compile returns the Program of a policy, which was decoded from the object of in. Program.Diags holds the mistakes; do not use a
// Program with an error among them.
func Compile(p *policiesv1beta1.ImageValidatingPolicy, in family.Source) *policy.Program {
	b := &builder{program: celpolicy.Outline(p.TypeMeta, p.ObjectMeta, common(&p.Spec)), allowance: in.Within(), subresources: in.Subresources()}
	b.program.Unconfined = in.CommandLine
	documents := mode(&p.Spec) == env.JSON
	// Digests are added only to the objects of requests, not on the command line and not in scans.
	b.digests = on(p.Spec.ValidationConfigurations.MutateDigest) && !documents && !in.CommandLine && !in.Existing
	b.add(&p.Spec, "spec", "", true)
	asks := celpolicy.WebhookInput{Constraints: p.Spec.MatchConstraints, Conditions: p.Spec.MatchConditions, Subresources: in.Subresources()}
	rewritten := map[string][]admissionregistrationv1.MatchCondition{}
	if !documents {
		asks.Configs = configs(&p.Spec)
	}
	for _, c := range asks.Configs {
		spec, mistakes := generated(&p.Spec, in.Object, c)
		rewritten[c.Key] = spec.MatchConditions
		if !b.program.Diags.HasErrors() { // otherwise the mistakes are already reported
			b.program.Diags.Add(mistakes...)
		}
		b.add(spec, "status.autogen.configs["+c.Key+"].spec", c.Key, c.Template != "")
	}
	if documents {
		return b.program // requests do not evaluate the policy
	}
	asks.Rewritten = func(c celpolicy.Config) []admissionregistrationv1.MatchCondition { return rewritten[c.Key] }
	asks.At = validates
	b.program.Webhooks = celpolicy.Webhooks(b.program, asks)
	if b.digests {
		asks.At, asks.Converts = mutates, true // as in Kyverno
		b.program.Webhooks = append(b.program.Webhooks, celpolicy.Webhook(b.program, asks))
	}
	return b.program
}

func common(spec *policiesv1beta1.ImageValidatingPolicySpec) celpolicy.Common {
	c := celpolicy.Common{FailurePolicy: spec.FailurePolicy, Webhook: spec.WebhookConfiguration}
	if e := spec.Evaluation; e != nil {
		c.Admission, c.Background = e.Admission, e.Background
	}
	return c
}

func mode(spec *policiesv1beta1.ImageValidatingPolicySpec) env.Mode {
	if spec.Evaluation != nil && spec.Evaluation.Mode == policiesv1beta1.EvaluationModeJSON {
		return env.JSON
	}
	return env.Kubernetes
}

// on reports whether a switch of validationConfigurations is on. The default is on.
func on(b *bool) bool { return b == nil || *b }

// builder builds the rules of one Program.
type builder struct {
	program   *policy.Program
	allowance *compilecost.Allowance
	digests   bool // whether digests are added to tags
	// subresources is that of celpolicy.Input.
	subresources bool
}

// add adds the rules of a spec. known means that the images of its resources are at known paths; otherwise the rules search for Pod
// templates.
func (b *builder) add(spec *policiesv1beta1.ImageValidatingPolicySpec, path, controllers string, known bool) {
	rule, e, diags := b.compileSpec(spec, path)
	if !b.program.Diags.HasErrors() {
		b.program.Diags.Add(diags...)
	}
	rules := []*policy.Rule{rule}
	if !known {
		celpolicy.OnTemplates(rule, failed)
	}
	if b.digests {
		r := *rule
		r.Kind, r.Stage, r.SkipOnDelete, r.Shared, r.Annotates, r.Object = DigestKind, policy.StageMutate, true, false, false, nil
		e.subject.OnlyListed(&r)
		switch {
		case diags.HasErrors():
			r.Eval = func(*policy.Call) policy.Yield { return policy.Yield{} } // the validating rule reports it
		case known:
			r.Eval = e.pin
		default:
			r.Eval = unpinned
		}
		if celpolicy.Exact(spec.MatchConstraints) {
			r.Match = unconverted(r.Match)
		}
		rules = append(rules, &r)
	}
	for _, r := range rules {
		r.Index, r.Origin = len(b.program.Rules), celpolicy.Origin(controllers)
		b.program.Rules = append(b.program.Rules, r)
	}
}

// unconverted returns the match of a rule whose webhook also gets requests for other versions, converted.
func unconverted(match func(context.Context, *policy.Request) (bool, error)) func(context.Context, *policy.Request) (bool, error) {
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		if r.AskedFor().GVR != r.GVR {
			return false, nil
		}
		return match(ctx, r)
	}
}

// configs returns the configurations of the policies that are generated from the spec.
func configs(spec *policiesv1beta1.ImageValidatingPolicySpec) []celpolicy.Config {
	var settings *policiesv1beta1.PodControllers
	if spec.Autogen != nil {
		settings = spec.Autogen.PodControllers
	}
	return celpolicy.Configs(spec.MatchConstraints, settings)
}

// generated returns the spec of a generated policy.
func generated(spec *policiesv1beta1.ImageValidatingPolicySpec, object map[string]any, c celpolicy.Config) (*policiesv1beta1.ImageValidatingPolicySpec, diag.List) {
	out, diags := spec.DeepCopy(), diag.List(nil)
	if c.Template != "" {
		out = &policiesv1beta1.ImageValidatingPolicySpec{}
		diags = strict.DecodeAt("spec", celpolicy.Rewrite(object["spec"], c.Template), out)
		diags = slices.DeleteFunc(diags, func(d diag.Diagnostic) bool { return d.Code == diag.UnknownField }) // Decode reports them
	}
	out.MatchConstraints = c.Constraints
	return out, diags
}

// Autogen returns the generated policies of a policy for its status. object is the decoded object.
func Autogen(p *policiesv1beta1.ImageValidatingPolicy, object map[string]any) map[string]policiesv1beta1.ImageValidatingPolicyAutogenConfig {
	out := map[string]policiesv1beta1.ImageValidatingPolicyAutogenConfig{}
	if mode(&p.Spec) == env.JSON {
		return out
	}
	for _, c := range configs(&p.Spec) {
		spec, _ := generated(&p.Spec, object, c)
		out[c.Key] = policiesv1beta1.ImageValidatingPolicyAutogenConfig{Targets: c.Targets, Spec: *spec}
	}
	return out
}

// compileSpec returns the validating rule of a spec.
func (b *builder) compileSpec(spec *policiesv1beta1.ImageValidatingPolicySpec, path string) (*policy.Rule, *evaluator, diag.List) {
	p, a, mode := b.program, b.allowance, mode(spec)
	in := celpolicy.Input{
		Kind: env.ImageValidating, Mode: mode, Constraints: spec.MatchConstraints, Conditions: spec.MatchConditions, Allowance: a, Path: path,
		Subresources: b.subresources,
	}
	e := &evaluator{json: mode == env.JSON, registry: credentials(spec.Credentials)}
	subject, c := celpolicy.Compile(p, in)
	e.subject = subject
	e.images.extract(c, spec.ImageExtractors, path+".images") // precedes the variables, which may read the images
	e.references = compileReferences(c, spec.MatchImageReferences, path+".matchImageReferences", a)
	if !e.json {
		c.Variables(spec.Variables, path+".variables")
	}
	e.attestors = compileAttestors(c, spec.Attestors, path+".attestors")
	e.attestations = compileAttestations(c, spec.Attestations, path+".attestations")
	e.attestorNames, e.attestationNames = names(e.attestors), names(e.attestations)
	for i := range spec.Validations {
		v := c.Validation(&spec.Validations[i], fmt.Sprintf("%s.validations[%d]", path, i), typecheck.String)
		subject.Rule.Validations = append(subject.Rule.Validations, v)
	}
	for i := range spec.AuditAnnotations {
		at := c.Annotation(&spec.AuditAnnotations[i], path+".auditAnnotations["+strconv.Itoa(i)+"]")
		subject.Rule.Annotations = append(subject.Rule.Annotations, at)
	}
	verifies := c.Calls(env.LibraryImageVerify)
	e.verifyDigest, e.required = on(spec.ValidationConfigurations.VerifyDigest), on(spec.ValidationConfigurations.Required)
	e.rule = &subject.Rule
	rule := subject.NewRule(c)
	rule.Name, rule.Kind, rule.Stage, rule.OnError = p.Name, RuleKind, policy.StageValidate, policy.ErrorByAction
	rule.VerifiesImages = true
	rule.Offline.Silent = true
	celpolicy.SetActions(rule, p, c, spec.ValidationActions, path)
	rule.Shared, rule.Annotates = verifies || e.required, len(subject.Rule.Annotations) > 0
	rule.Object = reads(c.Object())
	rule.Eval = e.evaluate
	if c.Diags.HasErrors() {
		rule.Eval = celpolicy.Broken(c.Diags)
	}
	return rule, e, c.Diags
}

// reads returns the fields of an object that contain its images.
func reads(expressions *value.Fields) *value.Fields {
	out := policy.ObjectReads(expressions)
	if out == nil {
		return nil
	}
	for _, path := range places {
		at := out
		for _, name := range path {
			at = at.Member(name)
		}
		for _, list := range lists {
			element := at.Member(list.Field).Items()
			if list.Source != "" {
				element = element.Member(list.Source)
			}
			element.Member(list.Reference)
		}
	}
	return out
}

// credentials returns the registry credentials of a request.
func credentials(c *policiesv1beta1.Credentials) world.ImageRequest {
	if c == nil {
		return world.ImageRequest{}
	}
	return world.ImageRequest{Insecure: c.AllowInsecureRegistry, Providers: c.Providers, Secrets: c.Secrets}
}

// expression compiles an expression of a list.
func expression(c *celrule.Compiler, text, path string, i int, results ...typecheck.Result) *run.Expression {
	return c.Expression(text, path+"["+strconv.Itoa(i)+"].expression", results...)
}
