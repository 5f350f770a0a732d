package v2beta1

import (
	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
)

// Spec is the body of a ClusterPolicy or Policy.
type Spec struct {
	// The rules, evaluated in this order. Their names differ.
	Rules []Rule `json:"rules,omitempty"`

	// All applies every rule; One stops after the first rule that passes or fails. All when empty.
	// +optional
	ApplyRules *kyvernov1.ApplyRules `json:"applyRules,omitempty"`

	// Whether a request is refused (Fail) or admitted (Ignore) when a rule cannot be evaluated or the webhook cannot
	// be reached. Older form of webhookConfiguration.failurePolicy. Fail when empty.
	// +optional
	FailurePolicy *kyvernov1.FailurePolicyType `json:"failurePolicy,omitempty"`

	// What a failed validation means for rules that do not say it themselves: Enforce refuses the request, Audit
	// records the failure. Older form of the rule's validate.failureAction.
	// +optional
	// +kubebuilder:default=Audit
	ValidationFailureAction kyvernov1.ValidationFailureAction `json:"validationFailureAction,omitempty"`

	// Other failure actions for some namespaces. Older form of the rule's validate.failureActionOverrides.
	// +optional
	ValidationFailureActionOverrides []kyvernov1.ValidationFailureActionOverride `json:"validationFailureActionOverrides,omitempty"`

	// Adds a warning to the answer for each result that is not a skip.
	// +optional
	// +kubebuilder:default=false
	EmitWarning *bool `json:"emitWarning,omitempty"`

	// Whether the rules are applied to admission requests.
	// +optional
	// +kubebuilder:default=true
	Admission *bool `json:"admission,omitempty"`

	// Whether the rules are applied to existing resources by the periodic scan.
	// +optional
	// +kubebuilder:default=true
	Background *bool `json:"background,omitempty"`

	// Accepted for old manifests; without effect.
	// +optional
	SchemaValidation *bool `json:"schemaValidation,omitempty"`

	// Seconds that the API server waits for the webhook, 1 to 30. Older form of webhookConfiguration.timeoutSeconds.
	// +optional
	WebhookTimeoutSeconds *int32 `json:"webhookTimeoutSeconds,omitempty"`

	// Applies mutations of existing resources when the policy itself changes. Older form of the field of the same name
	// in the rule.
	// +optional
	MutateExistingOnPolicyUpdate bool `json:"mutateExistingOnPolicyUpdate,omitempty"`

	// No longer permitted; use generateExisting.
	// +optional
	GenerateExistingOnPolicyUpdate *bool `json:"generateExistingOnPolicyUpdate,omitempty"`

	// Applies generate rules to resources that are already there. Older form of the field of the same name in the rule.
	// +optional
	GenerateExisting bool `json:"generateExisting,omitempty"`

	// Writes generated resources by server-side apply.
	// +optional
	UseServerSideApply bool `json:"useServerSideApply,omitempty"`

	// How the API server calls the webhook for this policy.
	// +optional
	WebhookConfiguration *kyvernov1.WebhookConfiguration `json:"webhookConfiguration,omitempty"`
}
