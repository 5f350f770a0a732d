package v1

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Spec contains the rules and settings of a ClusterPolicy or Policy.
type Spec struct {
	// The rules, which are evaluated in this order. Their names must be unique.
	Rules []Rule `json:"rules,omitempty"`

	// How many rules are evaluated: All, or One, which stops after the first rule that passes or fails. The default is All.
	// +optional
	ApplyRules *ApplyRules `json:"applyRules,omitempty"`

	// Whether a request is denied (Fail) or admitted (Ignore) if a rule cannot be evaluated or the webhook cannot be reached. The default
	// is Fail. Older form of webhookConfiguration.failurePolicy.
	// +optional
	FailurePolicy *FailurePolicyType `json:"failurePolicy,omitempty"`

	// How a failed validation affects a request: Enforce denies it, Audit admits it and reports the failure. The default is Audit. Older
	// form of the rule's validate.failureAction, which takes precedence.
	// +optional
	// +kubebuilder:default=Audit
	ValidationFailureAction ValidationFailureAction `json:"validationFailureAction,omitempty"`

	// Failure actions for some namespaces. Older form of the rule's validate.failureActionOverrides.
	// +optional
	ValidationFailureActionOverrides []ValidationFailureActionOverride `json:"validationFailureActionOverrides,omitempty"`

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
	WebhookConfiguration *WebhookConfiguration `json:"webhookConfiguration,omitempty"`
}

// ApplyRules defines how many rules of a policy are evaluated.
//
// +kubebuilder:validation:Enum=All;One
type ApplyRules string

// The values of ApplyRules.
const (
	ApplyAll ApplyRules = "All"
	ApplyOne ApplyRules = "One"
)

// FailurePolicyType defines how an error affects a request.
//
// +kubebuilder:validation:Enum=Ignore;Fail
type FailurePolicyType string

// The values of FailurePolicyType.
const (
	Ignore FailurePolicyType = "Ignore"
	Fail   FailurePolicyType = "Fail"
)

// ValidationFailureAction defines how a failed validation affects a request. Upper and lower case are equal.
//
// +kubebuilder:validation:Enum=audit;enforce;Audit;Enforce
type ValidationFailureAction string

// FailureAction defines how a failed rule affects a request.
//
// +kubebuilder:validation:Enum=Audit;Enforce
type FailureAction string

// The failure actions.
const (
	Audit   = "Audit"
	Enforce = "Enforce"
)

// IsEnforce reports whether the action denies requests. It ignores case.
func (a ValidationFailureAction) IsEnforce() bool { return strings.EqualFold(string(a), Enforce) }

// IsEnforce reports whether the action denies requests.
func (a FailureAction) IsEnforce() bool { return strings.EqualFold(string(a), Enforce) }

// ValidationFailureActionOverride sets the failure action for some namespaces. Without namespaces and selector it applies to all namespaces.
type ValidationFailureActionOverride struct {
	// The action for these namespaces.
	Action ValidationFailureAction `json:"action,omitempty"`
	// Names of namespaces; wildcards are allowed.
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// Selects namespaces by labels.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// WebhookConfiguration defines how the API server calls the webhook for a policy.
type WebhookConfiguration struct {
	// Whether a request is denied (Fail) or admitted (Ignore) if a rule cannot be evaluated or the webhook cannot be reached. It takes
	// precedence over spec.failurePolicy.
	// +optional
	FailurePolicy *FailurePolicyType `json:"failurePolicy,omitempty"`
	// Timeout of the webhook in seconds, from 1 to 30. It takes precedence over spec.webhookTimeoutSeconds.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// CEL conditions that must be true for the API server to call the webhook.
	// +optional
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
}
