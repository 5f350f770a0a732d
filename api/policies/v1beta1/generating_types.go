package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GeneratingPolicy creates resources when other resources are created, updated or deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=generatingpolicies,scope=Cluster,shortName=gpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type GeneratingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources trigger the policy, and which resources it creates.
	Spec GeneratingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
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

// NamespacedGeneratingPolicy creates resources in its own namespace when other resources of the namespace are created, updated or deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=namespacedgeneratingpolicies,scope=Namespaced,shortName=ngpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type NamespacedGeneratingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources trigger the policy, and which resources it creates.
	Spec GeneratingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
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

// GeneratingPolicySpec defines which resources trigger the policy, and which resources it creates.
type GeneratingPolicySpec struct {
	// Selects the resources that trigger the policy, by group, version, resource, operation, namespace and labels.
	// +optional
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// CEL conditions that must all be true for the policy to apply to a resource. They are evaluated before all other expressions.
	// +optional
	// +listType=map
	// +listMapKey=name
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
	// Named CEL expressions. Later expressions read their values as variables.⟨name⟩.
	// +optional
	// +listType=map
	// +listMapKey=name
	Variables []admissionregistrationv1.Variable `json:"variables,omitempty"`
	// When the policy is evaluated, and how generated resources are kept in sync.
	// +optional
	Evaluation *GeneratingPolicyEvaluation `json:"evaluation,omitempty"`
	// Settings of the webhook that calls the policy.
	// +optional
	WebhookConfiguration *WebhookConfiguration `json:"webhookConfiguration,omitempty"`
	// The resources to create, as expressions or templates, in this order.
	// +kubebuilder:validation:MinItems=1
	Generate []Generation `json:"generate"`
	// CEL expressions whose values are added to the results in reports, and to the audit events of requests.
	// +optional
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
	// Whether resources are written with server-side apply. The default is false.
	// +optional
	UseServerSideApply *bool `json:"useServerSideApply,omitempty"`
}

// Generation is one expression or one template that creates resources.
//
// +kubebuilder:validation:XValidation:rule="(has(self.expression) && !has(self.template)) || (!has(self.expression) && has(self.template))",message="exactly one of expression or template must be set"
type Generation struct {
	// A CEL expression that calls generator.Apply(namespace, resources).
	// +optional
	Expression string `json:"expression,omitempty"`
	// A template of YAML documents.
	// +optional
	Template *GenerationTemplate `json:"template,omitempty"`
}

// GenerationTemplate is a text of YAML documents, each of which describes one resource.
type GenerationTemplate struct {
	// The YAML documents.
	// +kubebuilder:validation:MinLength=1
	Value string `json:"value"`
	// Type of the placeholders in the text: none, or cel for (( expression )). The default is none.
	// +optional
	// +kubebuilder:validation:Enum=none;cel
	// +kubebuilder:default=none
	Interpolate string `json:"interpolate,omitempty"`
}

// GeneratingPolicyEvaluation defines when a GeneratingPolicy is evaluated, and how generated resources are kept in sync.
type GeneratingPolicyEvaluation struct {
	// Whether the policy is evaluated at admission. The default is true.
	// +optional
	Admission *SwitchOn `json:"admission,omitempty"`
	// Whether existing resources trigger the policy when it is created or changed. The default is false.
	// +optional
	GenerateExisting *SwitchOff `json:"generateExisting,omitempty"`
	// Whether generated resources follow changes of their trigger, their source and the policy. The default is false.
	// +optional
	Synchronize *SwitchOff `json:"synchronize,omitempty"`
	// Whether generated resources are kept when the policy is deleted. The default is false.
	// +optional
	OrphanDownstreamOnPolicyDelete *SwitchOff `json:"orphanDownstreamOnPolicyDelete,omitempty"`
	// Whether requests of the background controller are ignored, which prevents endless loops. The default is true.
	// +optional
	// +kubebuilder:default=true
	SkipBackgroundRequests *bool `json:"skipBackgroundRequests,omitempty"`
}

// GeneratingPolicyStatus is the state of a GeneratingPolicy in the cluster.
type GeneratingPolicyStatus struct {
	// Whether the policy is ready, and its conditions.
	// +optional
	ConditionStatus *ConditionStatus `json:"conditionStatus,omitempty"`
}
