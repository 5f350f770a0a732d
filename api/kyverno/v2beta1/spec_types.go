package v2beta1

import (
	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// Spec contains the rules and settings of a ClusterPolicy or Policy.
type Spec struct {
	// The rules, which are evaluated in this order. Their names must be unique.
	Rules []Rule `json:"rules,omitempty"`

	// How many rules are evaluated: All, or One, which stops after the first rule that passes or fails. The default is All.
	// +optional
	ApplyRules *kyvernov1.ApplyRules `json:"applyRules,omitempty"`

	// Whether a request is denied (Fail) or admitted (Ignore) if a rule cannot be evaluated or the webhook cannot be reached. The default
	// is Fail. Older form of webhookConfiguration.failurePolicy.
	// +optional
	FailurePolicy *kyvernov1.FailurePolicyType `json:"failurePolicy,omitempty"`

	// How a failed validation affects a request: Enforce denies it, Audit admits it and reports the failure. The default is Audit. Older
	// form of the rule's validate.failureAction, which takes precedence.
	// +optional
	// +kubebuilder:default=Audit
	ValidationFailureAction kyvernov1.ValidationFailureAction `json:"validationFailureAction,omitempty"`

	// Failure actions for some namespaces. Older form of the rule's validate.failureActionOverrides.
	// +optional
	ValidationFailureActionOverrides []kyvernov1.ValidationFailureActionOverride `json:"validationFailureActionOverrides,omitempty"`

	// Whether the response to a request contains a warning for each result except skip. The default is false.
	// +optional
	// +kubebuilder:default=false
	EmitWarning *bool `json:"emitWarning,omitempty"`

	// Whether the rules are evaluated for admission requests. The default is true.
	// +optional
	// +kubebuilder:default=true
	Admission *bool `json:"admission,omitempty"`

	// Whether the rules are evaluated for existing resources by background scans. The default is true.
	// +optional
	// +kubebuilder:default=true
	Background *bool `json:"background,omitempty"`

	// Accepted for old manifests. It has no effect.
	// +optional
	SchemaValidation *bool `json:"schemaValidation,omitempty"`

	// Timeout of the webhook in seconds, from 1 to 30. The default is 10. Older form of webhookConfiguration.timeoutSeconds.
	// +optional
	WebhookTimeoutSeconds *int32 `json:"webhookTimeoutSeconds,omitempty"`

	// Applies mutate rules to their targets when the policy is created or changed. Older form of the field of the same name in the rule.
	// +optional
	MutateExistingOnPolicyUpdate bool `json:"mutateExistingOnPolicyUpdate,omitempty"`

	// No longer permitted; use generateExisting.
	// +optional
	GenerateExistingOnPolicyUpdate *bool `json:"generateExistingOnPolicyUpdate,omitempty"`

	// Applies generate rules to resources that already exist. Older form of the field of the same name in the rule.
	// +optional
	GenerateExisting bool `json:"generateExisting,omitempty"`

	// Whether generated resources are written with server-side apply. The default is false.
	// +optional
	UseServerSideApply bool `json:"useServerSideApply,omitempty"`

	// How the API server calls the webhook for this policy.
	// +optional
	WebhookConfiguration *kyvernov1.WebhookConfiguration `json:"webhookConfiguration,omitempty"`
}
