package native

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// Family describes the family.
var Family = &family.Family{
	Name: "native", Doc: "ValidatingAdmissionPolicy and MutatingAdmissionPolicy of admissionregistration.k8s.io", Kinds: familyKinds,
	Companions: []family.Companion{
		{Group: Group, Kind: ValidatingBinding, Versions: versions, Policy: ValidatingPolicy, Compile: attach(ValidatingPolicy)},
		{Group: Group, Kind: MutatingBinding, Versions: versions, Policy: MutatingPolicy, Compile: attach(MutatingPolicy)},
	},
	Compile: func(in family.Source) *policy.Program {
		from := Source{Policy: in.Object, Allowance: in.Within()}
		for _, c := range in.Companions {
			from.Bindings = append(from.Bindings, c.(*Binding))
		}
		var o Options
		if in.Types != nil && in.Object["kind"] == MutatingPolicy {
			o.Types = in.Types()
		}
		compile := Compile
		if in.Existing {
			compile = CompileReport
		}
		program := compile(from, o)
		program.Diags.Add(checkVersion(in.Object)...)
		return program
	},
}

var familyKinds = family.Kinds{
	{Group: Group, Kind: ValidatingPolicy, Resource: "validatingadmissionpolicies", Versions: versions, Source: ValidatingPolicy, Foreign: true,
		NoExceptions: "use of exceptions with ValidatingAdmissionPolicies is not supported", Switch: &family.Switch{
			Flag: "validatingAdmissionPolicyReports", On: true,
			Usage: `scans also evaluate ValidatingAdmissionPolicies with the label reports.kyverno.io/enabled: "true"`,
		}},
	{Group: Group, Kind: MutatingPolicy, Resource: "mutatingadmissionpolicies", Versions: versions, Source: MutatingPolicy, Foreign: true, Switch: &family.Switch{
		Flag: "mutatingAdmissionPolicyReports", Required: true,
		Usage: "scans also evaluate MutatingAdmissionPolicies with the label reports.kyverno.io/enabled: \"true\" and report what they would change",
	}},
}

var versions = []string{"v1", "v1beta1", "v1alpha1"}

// attach returns the compiler for bindings of policies of a kind.
func attach(kind string) func(map[string]any) (family.Attached, diag.List) {
	return func(object map[string]any) (family.Attached, diag.List) {
		b, diags := CompileBinding(object)
		diags.Add(checkVersion(object)...)
		return family.Attached{Policy: policy.ID{Kind: kind, Name: b.policy}, Content: b}, diags
	}
}

// checkVersion reports a version that the API group never had.
func checkVersion(object map[string]any) (diags diag.List) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if _, version, _ := strings.Cut(apiVersion, "/"); !slices.Contains(versions, version) {
		diags.Errorf("apiVersion", "no version %q of %s in group %s", version, kind, Group)
		diags.Hint("versions are %s", strings.Join(versions, ", "))
	}
	return diags
}
