package celpolicy

import (
	"strconv"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/strict"
)

// PriorityLabel is the label with the priority of an exception, an integer. Among exceptions that exempt the same request, the one with the
// highest priority comes first.
const PriorityLabel = "polex.kyverno.io/priority"

// Exceptions describes the exceptions for policies of the group.
var Exceptions = &family.Exceptions{
	Group: Group, Kind: "PolicyException", Resource: "policyexceptions", Versions: versions, Reviewed: []string{"v1alpha1", "v1beta1", "v1"},
	Path: "/celexception/validate", Configuration: "kyverno-cel-exception-validating-webhook-cfg",
	FieldErrors: true, Compile: CompileException,
}

// CompileException decodes, checks and compiles an exception. It always returns an exception, whose Diags are the
// returned diagnostics. Do not use an exception with errors among them.
func CompileException(object map[string]any, o family.Options) (*policy.Exception, diag.List) {
	var e policiesv1beta1.PolicyException
	diags := strict.Decode(object, &e)
	checkVersion(&diags, e.APIVersion, e.Kind, versions)
	checkException(&diags, &e.Spec)
	out := &policy.Exception{
		APIVersion: e.APIVersion, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name, UID: string(e.UID), Generation: e.Generation, ResourceVersion: e.ResourceVersion,
		Background: true, Source: func() map[string]any { return object },
		Images: e.Spec.Images, Values: e.Spec.AllowedValues, ReportPass: e.Spec.ReportResult == "pass",
	}
	out.Partial = len(out.Images)+len(out.Values) > 0
	if t := e.Spec.ExpiresAt; t != nil {
		out.Expires = t.Time
	}
	if n, err := strconv.Atoi(e.Labels[PriorityLabel]); err == nil && n > 0 {
		out.Priority = n
	}
	for _, ref := range e.Spec.PolicyRefs {
		out.Rules = append(out.Rules, policy.ExceptionRules{Kind: ref.Kind, Policy: ref.Name, AnyNamespace: true, Names: []string{"*"}})
	}
	diags.Add(family.AnnotateException(out, e.Annotations)...)
	compileConditions(out, &e.Spec, o, &diags)
	out.Diags = diags
	return out, diags
}
