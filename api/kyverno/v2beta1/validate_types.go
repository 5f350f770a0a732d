package v2beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// Validation validates resources by one of pattern, anyPattern, deny, foreach, podSecurity, cel, manifests or assert.
type Validation struct {
	// How a failure affects a request: Enforce denies it, Audit admits it and reports the failure. The default is the policy's
	// validationFailureAction.
	// +optional
	FailureAction *kyvernov1.FailureAction `json:"failureAction,omitempty"`
	// Failure actions for some namespaces. The first entry that matches a namespace applies.
	// +optional
	FailureActionOverrides []kyvernov1.ValidationFailureActionOverride `json:"failureActionOverrides,omitempty"`
	// Message of a failure. It may contain variables and references.
	// +optional
	Message string `json:"message,omitempty"`
	// Requires a signature on the manifest of the resource.
	// +optional
	Manifests *kyvernov1.Manifests `json:"manifests,omitempty"`
	// Validates each element of a list.
	// +optional
	ForEachValidation []kyvernov1.ForEachValidation `json:"foreach,omitempty"`
	// A pattern that the resource must match.
	// +optional
	RawPattern *apiextensionsv1.JSON `json:"pattern,omitempty"`
	// Patterns of which the resource must match at least one.
	// +optional
	RawAnyPattern *apiextensionsv1.JSON `json:"anyPattern,omitempty"`
	// Conditions that make the rule fail.
	// +optional
	Deny *Deny `json:"deny,omitempty"`
	// Validates Pods by the controls of the Pod Security Standards.
	// +optional
	PodSecurity *kyvernov1.PodSecurity `json:"podSecurity,omitempty"`
	// Validates resources by CEL expressions.
	// +optional
	CEL *kyvernov1.CEL `json:"cel,omitempty"`
	// Assertion tree; accepted and not evaluated.
	// +optional
	Assert *apiextensionsv1.JSON `json:"assert,omitempty"`
}

// Deny makes the rule fail if its conditions are true. Without conditions the rule always fails.
type Deny struct {
	// The conditions.
	// +optional
	AnyAllConditions *AnyAllConditions `json:"conditions,omitempty"`
}
