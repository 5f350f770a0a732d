package v2beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
)

// Validation checks resources by one of pattern, anyPattern, deny, foreach, podSecurity, cel, manifests or assert.
type Validation struct {
	// Enforce refuses requests that fail, Audit records them; the policy's action when empty.
	// +optional
	FailureAction *kyvernov1.FailureAction `json:"failureAction,omitempty"`
	// Other actions for some namespaces; the first that covers a namespace counts.
	// +optional
	FailureActionOverrides []kyvernov1.ValidationFailureActionOverride `json:"failureActionOverrides,omitempty"`
	// Shown when the rule fails; it may hold variables and references.
	// +optional
	Message string `json:"message,omitempty"`
	// Manifests that have to be signed.
	// +optional
	Manifests *kyvernov1.Manifests `json:"manifests,omitempty"`
	// Checks for each element of a list.
	// +optional
	ForEachValidation []kyvernov1.ForEachValidation `json:"foreach,omitempty"`
	// The shape that the resource must have.
	// +optional
	RawPattern *apiextensionsv1.JSON `json:"pattern,omitempty"`
	// Shapes of which the resource must have one.
	// +optional
	RawAnyPattern *apiextensionsv1.JSON `json:"anyPattern,omitempty"`
	// Conditions under which the rule fails.
	// +optional
	Deny *Deny `json:"deny,omitempty"`
	// Controls of the Pod Security Standards.
	// +optional
	PodSecurity *kyvernov1.PodSecurity `json:"podSecurity,omitempty"`
	// CEL expressions that must hold.
	// +optional
	CEL *kyvernov1.CEL `json:"cel,omitempty"`
	// Assertion tree; accepted and not evaluated.
	// +optional
	Assert *apiextensionsv1.JSON `json:"assert,omitempty"`
}

// Deny fails the rule when its conditions hold; without conditions it always does.
type Deny struct {
	// The conditions.
	// +optional
	AnyAllConditions *AnyAllConditions `json:"conditions,omitempty"`
}
