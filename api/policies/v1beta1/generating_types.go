package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GeneratingPolicy makes resources when others are created or changed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=generatingpolicies,scope=Cluster,shortName=gpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type GeneratingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is made.
	Spec GeneratingPolicySpec `json:"spec"`
	// What the controllers made of the policy.
	// +optional
	Status GeneratingPolicyStatus `json:"status,omitempty,omitzero"`
}

// GeneratingPolicyList is a list of GeneratingPolicy.
//
// +kubebuilder:object:root=true
type GeneratingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GeneratingPolicy `json:"items"`
}

// NamespacedGeneratingPolicy makes resources when others are created or changed, in its own namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=namespacedgeneratingpolicies,scope=Namespaced,shortName=ngpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type NamespacedGeneratingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is made.
	Spec GeneratingPolicySpec `json:"spec"`
	// What the controllers made of the policy.
	// +optional
	Status GeneratingPolicyStatus `json:"status,omitempty,omitzero"`
}

// NamespacedGeneratingPolicyList is a list of NamespacedGeneratingPolicy.
//
// +kubebuilder:object:root=true
type NamespacedGeneratingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespacedGeneratingPolicy `json:"items"`
}

// GeneratingPolicySpec says what triggers the policy, and what it makes.
type GeneratingPolicySpec struct {
	// The resources that trigger the policy.
	// +optional
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// What has to be true for the policy to be for a resource.
	// +optional
	// +listType=map
	// +listMapKey=name
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
	// Values that other expressions read as variables.⟨name⟩.
	// +optional
	// +listType=map
	// +listMapKey=name
	Variables []admissionregistrationv1.Variable `json:"variables,omitempty"`
	// When the policy is evaluated, and what becomes of what it made.
	// +optional
	Evaluation *GeneratingPolicyEvaluation `json:"evaluation,omitempty"`
	// The webhook of the policy.
	// +optional
	WebhookConfiguration *WebhookConfiguration `json:"webhookConfiguration,omitempty"`
	// What is made, in order.
	// +kubebuilder:validation:MinItems=1
	Generate []Generation `json:"generate"`
	// Values that are added to the entries of reports.
	// +optional
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
	// Whether resources are written by server-side apply.
	// +optional
	UseServerSideApply *bool `json:"useServerSideApply,omitempty"`
}

// Generation is one expression or one template that makes resources.
//
// +kubebuilder:validation:XValidation:rule="(has(self.expression) && !has(self.template)) || (!has(self.expression) && has(self.template))",message="exactly one of expression or template must be set"
type Generation struct {
	// An expression that calls generator.Apply.
	// +optional
	Expression string `json:"expression,omitempty"`
	// YAML documents.
	// +optional
	Template *GenerationTemplate `json:"template,omitempty"`
}

// GenerationTemplate is a text of YAML documents.
type GenerationTemplate struct {
	// The text.
	// +kubebuilder:validation:MinLength=1
	Value string `json:"value"`
	// Whether the text has placeholders: none (the default), or cel for (( expression )).
	// +optional
	// +kubebuilder:validation:Enum=none;cel
	// +kubebuilder:default=none
	Interpolate string `json:"interpolate,omitempty"`
}

// GeneratingPolicyEvaluation says when a GeneratingPolicy is evaluated, and what becomes of what it made.
type GeneratingPolicyEvaluation struct {
	// Evaluation of admission requests.
	// +optional
	Admission *SwitchOn `json:"admission,omitempty"`
	// Evaluation of existing triggers when the policy changes.
	// +optional
	GenerateExisting *SwitchOff `json:"generateExisting,omitempty"`
	// Whether generated resources follow their trigger, their source and the policy.
	// +optional
	Synchronize *SwitchOff `json:"synchronize,omitempty"`
	// Whether generated resources stay when the policy is deleted.
	// +optional
	OrphanDownstreamOnPolicyDelete *SwitchOff `json:"orphanDownstreamOnPolicyDelete,omitempty"`
	// Whether requests of the background controller are left out.
	// +optional
	// +kubebuilder:default=true
	SkipBackgroundRequests *bool `json:"skipBackgroundRequests,omitempty"`
}

// GeneratingPolicyStatus says what the controllers made of a policy.
type GeneratingPolicyStatus struct {
	// Whether the policy is ready.
	// +optional
	ConditionStatus *ConditionStatus `json:"conditionStatus,omitempty"`
}
