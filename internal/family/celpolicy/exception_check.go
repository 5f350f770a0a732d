package celpolicy

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/strict"
)

// maxConditions is the largest number of conditions in an exception, the same as in the API server's own policies.
const maxConditions = 64

// checkException reports all mistakes in an exception, except those in expressions.
func checkException(diags *diag.List, spec *policiesv1beta1.PolicyExceptionSpec) {
	if len(spec.PolicyRefs) == 0 {
		diags.Invalid("spec.policyRefs", "", "must specify at least one policy ref")
	}
	for i, ref := range spec.PolicyRefs {
		at := "spec.policyRefs[" + strconv.Itoa(i) + "]"
		if ref.Name == "" {
			diags.Invalid(at+".name", "", "must specify policy name")
		}
		if ref.Kind == "" {
			diags.Invalid(at+".kind", "", "must specify policy kind")
		} else if _, known := environmentOf(ref.Kind); !known {
			diags.Warnf(at+".kind", "the exception is for no policy: %s has no kind %q", Group, ref.Kind)
			if near := strict.Nearest(ref.Kind, slices.Collect(maps.Keys(Environments))); near != "" {
				diags.Hint("did you mean %s?", near)
			}
		}
	}
	checkParts(diags, spec)
	checkConditions(diags, spec)
	switch spec.ReportResult {
	case "", "skip", "pass":
	default:
		diags.Unsupported("spec.reportResult", spec.ReportResult, []string{"skip", "pass"})
	}
}

// checkParts warns of images and values that are allowed for policies that have no use for them.
func checkParts(diags *diag.List, spec *policiesv1beta1.PolicyExceptionSpec) {
	warned := map[string]bool{}
	for _, ref := range spec.PolicyRefs {
		d, known := environmentOf(ref.Kind)
		if !known || warned[ref.Kind] {
			continue
		}
		warned[ref.Kind] = true
		if len(spec.AllowedValues) > 0 && (d.Kind == env.Deleting || d.Kind == env.ImageValidating) {
			diags.Warnf("spec.allowedValues", "the values have no effect on %s: its expressions cannot read them", ref.Kind)
		}
		if len(spec.Images) > 0 && d.Kind == env.Deleting {
			diags.Warnf("spec.images", "the images have no effect on %s: its expressions cannot read them", ref.Kind)
			diags.Hint("an exception without images and allowedValues exempts the objects that its conditions select")
		}
	}
}

// checkConditions reports mistakes in the number and the names of conditions, as the API server does for its own policies.
func checkConditions(diags *diag.List, spec *policiesv1beta1.PolicyExceptionSpec) {
	if n := len(spec.MatchConditions); n > maxConditions {
		diags.TooMany("spec.matchConditions", n, maxConditions)
	}
	seen := map[string]bool{}
	for i, c := range spec.MatchConditions {
		at := "spec.matchConditions[" + strconv.Itoa(i) + "]"
		if c.Name == "" {
			diags.Required(at+".name", "")
		} else {
			for _, why := range validation.IsQualifiedName(c.Name) {
				diags.Invalid(at+".name", c.Name, why)
			}
			if seen[c.Name] {
				diags.Duplicate(at+".name", c.Name)
			}
			seen[c.Name] = true
		}
		if c.Expression == "" {
			diags.Required(at+".expression", "")
		}
	}
}
