package exception

import (
	"slices"
	"strings"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/strict"
)

// Exceptions describes the exceptions from classic policies. All versions have the same fields.
var Exceptions = &family.Exceptions{
	Group: group, Kind: kind, Resource: "policyexceptions", Versions: versions, Reviewed: []string{"v2alpha1", "v2beta1", "v2"},
	Path: "/exceptionvalidate", Configuration: "kyverno-exception-validating-webhook-cfg",
	Compile: Compile,
}

const (
	group = "kyverno.io"
	kind  = "PolicyException"
)

var versions = []string{"v2", "v2beta1"}

// Decode decodes a PolicyException of any served version. Unknown fields and values of the wrong type become diagnostics at their field
// paths; everything else is decoded.
func Decode(object map[string]any) (*kyvernov2.PolicyException, diag.List) {
	e := &kyvernov2.PolicyException{}
	diags := strict.Decode(object, e)
	_, version, _ := strings.Cut(e.APIVersion, "/")
	if slices.Contains(versions, version) {
		return e, diags
	}
	diags.Errorf("apiVersion", "no version %q of %s in group %s", version, kind, group)
	diags.Hint("served versions are %s", strings.Join(versions, " and "))
	return e, diags
}
