package v1

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Spec is the body of a ClusterPolicy or Policy.
type Spec struct {
	// The rules, evaluated in this order. Their names differ.
	Rules []Rule `json:"rules,omitempty"`

	// All applies every rule; One stops after the first rule that passes or fails. All when empty.
	// +optional
	ApplyRules *ApplyRules `json:"applyRules,omitempty"`

	// Whether a request is refused (Fail) or admitted (Ignore) when a rule cannot be evaluated or the webhook cannot
	// be reached. Older form of webhookConfiguration.failurePolicy. Fail when empty.
	// +optional
	FailurePolicy *FailurePolicyType `json:"failurePolicy,omitempty"`

	// What a failed validation means for rules that do not say it themselves: Enforce refuses the request, Audit
	// records the failure. Older form of the rule's validate.failureAction.
	// +optional
	// +kubebuilder:default=Audit
	ValidationFailureAction ValidationFailureAction `json:"validationFailureAction,omitempty"`

	// Other failure actions for some namespaces. Older form of the rule's validate.failureActionOverrides.
	// +optional
	ValidationFailureActionOverrides []ValidationFailureActionOverride `json:"validationFailureActionOverrides,omitempty"`

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
	WebhookConfiguration *WebhookConfiguration `json:"webhookConfiguration,omitempty"`
}

// ApplyRules says how many rules of a policy are applied.
//
// +kubebuilder:validation:Enum=All;One
type ApplyRules string

// The values of ApplyRules.
const (
	ApplyAll ApplyRules = "All"
	ApplyOne ApplyRules = "One"
)

// FailurePolicyType says what an error means for the request.
//
// +kubebuilder:validation:Enum=Ignore;Fail
type FailurePolicyType string

// The values of FailurePolicyType.
const (
	Ignore FailurePolicyType = "Ignore"
	Fail   FailurePolicyType = "Fail"
)

// ValidationFailureAction says what a failed validation means, in either case of letters.
//
// +kubebuilder:validation:Enum=audit;enforce;Audit;Enforce
type ValidationFailureAction string

// FailureAction says what a failed rule means.
//
// +kubebuilder:validation:Enum=Audit;Enforce
type FailureAction string

// The failure actions.
const (
	Audit   = "Audit"
	Enforce = "Enforce"
)

// IsEnforce reports whether the action refuses requests, in either case of letters.
func (a ValidationFailureAction) IsEnforce() bool { return strings.EqualFold(string(a), Enforce) }

// IsEnforce reports whether the action refuses requests.
func (a FailureAction) IsEnforce() bool { return strings.EqualFold(string(a), Enforce) }

// ValidationFailureActionOverride sets the failure action for some namespaces. Without namespaces and selector it
// covers all of them.
type ValidationFailureActionOverride struct {
	// The action for these namespaces.
	Action ValidationFailureAction `json:"action,omitempty"`
	// Names of namespaces; wildcards are allowed.
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// Labels of namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// WebhookConfiguration says how the API server calls the webhook for a policy.
type WebhookConfiguration struct {
	// Fail or Ignore. Replaces spec.failurePolicy.
	// +optional
	FailurePolicy *FailurePolicyType `json:"failurePolicy,omitempty"`
	// Seconds that the API server waits, 1 to 30. Replaces spec.webhookTimeoutSeconds.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// CEL conditions under which the webhook is called at all.
	// +optional
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
}
