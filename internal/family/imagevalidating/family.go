package imagevalidating

import (
	"slices"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// Kind is the cluster-wide kind of the family.
const Kind = "ImageValidatingPolicy"

// The kinds of the rules in a Program of this family: RuleKind validates, and DigestKind adds digests.
const (
	RuleKind   policy.RuleKind = "imageValidatingPolicy"
	DigestKind policy.RuleKind = "imageValidatingPolicy.mutateDigest"
)

// Family describes the family.
var Family = &family.Family{
	Name: "imagevalidating", Doc: "ImageValidatingPolicy and NamespacedImageValidatingPolicy of policies.kyverno.io",
	Kinds: familyKinds, Endpoints: slices.Concat(validates, mutates),
	Status: &family.Status{Conditions: celpolicy.ConditionsPath, Rights: true, Listable: true, Make: status},
	Compile: func(in family.Source) *policy.Program {
		p, diags := Decode(in.Object)
		program := Compile(p, in)
		diags.AddNew(program.Diags...) // generated policies have the mistakes of the policy
		program.Diags = diags
		return program
	},
	FieldErrors: true, Exceptions: celpolicy.Exceptions,
}

var familyKinds = celpolicy.Kinds(family.Kind{
	Kind: Kind, Resource: "imagevalidatingpolicies", Short: "ivpol", LabelPrefix: "ivpol.kyverno.io/", Source: "KyvernoImageValidatingPolicy",
	Review:  family.ReviewPolicy,
	Metrics: &family.Metrics{Name: "kyverno_image_validating_policy", Kind: Kind, Per: "request or scanned object", Mode: true, Background: true},
})

// validates and mutates are the webhook endpoints for policies of the family.
var (
	validates = endpoints(policy.Endpoint{
		Kinds: []string{Kind}, Name: "ivpol.validate.kyverno.svc", Path: "/ivpol/validate", Stages: policy.StageValidate, Words: celpolicy.Validating,
	})
	mutates = endpoints(policy.Endpoint{
		Kinds: []string{Kind}, Name: "ivpol.mutate.kyverno.svc", Path: "/ivpol/mutate", Mutating: true, Stages: policy.StageMutate, Words: celpolicy.Validating,
	})
)

// endpoints returns the endpoints of both kinds. As in Kyverno, their webhooks have the same name.
func endpoints(at policy.Endpoint) []policy.Endpoint {
	out := celpolicy.Endpoint(at)
	out[1].Name = out[0].Name
	return out
}

// Decode reads a policy of either kind and any served version.
func Decode(object map[string]any) (*policiesv1beta1.ImageValidatingPolicy, diag.List) {
	p := &policiesv1beta1.ImageValidatingPolicy{}
	diags := celpolicy.Decode(object, p, familyKinds)
	return p, diags
}
