package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MutatingPolicy changes resources with CEL expressions.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=mutatingpolicies,scope=Cluster,shortName=mpol,categories=kyverno
// +kubebuilder:selectablefield:JSONPath=`.spec.evaluation.mode`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type MutatingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are changed, and how.
	Spec MutatingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status MutatingPolicyStatus `json:"status,omitempty,omitzero"`
}

// MutatingPolicyList is a list of MutatingPolicy.
//
// +kubebuilder:object:root=true
type MutatingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MutatingPolicy `json:"items"`
}

// NamespacedMutatingPolicy changes resources of its own namespace with CEL expressions.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=namespacedmutatingpolicies,scope=Namespaced,shortName=nmpol,categories=kyverno
// +kubebuilder:selectablefield:JSONPath=`.spec.evaluation.mode`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type NamespacedMutatingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are changed, and how.
	Spec MutatingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status MutatingPolicyStatus `json:"status,omitempty,omitzero"`
}

// NamespacedMutatingPolicyList is a list of NamespacedMutatingPolicy.
//
// +kubebuilder:object:root=true
type NamespacedMutatingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespacedMutatingPolicy `json:"items"`
}

// MutatingPolicySpec defines which resources are changed, and how.
type MutatingPolicySpec struct {
	// Selects the resources to which the policy applies, by group, version, resource, operation, namespace and labels.
	// +optional
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// Whether an error during evaluation denies the request (Fail) or admits it unchanged (Ignore). The default is Fail.
	// +optional
	// +kubebuilder:validation:Enum=Ignore;Fail
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
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
	// Policies that are generated from this policy.
	// +optional
	Autogen *MutatingPolicyAutogen `json:"autogen,omitempty"`
	// Selects existing resources to change, instead of the resource in the admission request. Requires evaluation.mutateExisting.
	// +optional
	TargetMatchConstraints *TargetMatchConstraints `json:"targetMatchConstraints,omitempty"`
	// CEL conditions that must all be true for an existing resource to be changed.
	// +optional
	// +listType=map
	// +listMapKey=name
	TargetMatchConditions []admissionregistrationv1.MatchCondition `json:"targetMatchConditions,omitempty"`
	// The changes: apply configurations or JSON patches, in this order. Each reads the result of the changes before it.
	// +optional
	// +listType=atomic
	Mutations []admissionregistrationv1.Mutation `json:"mutations,omitempty"`
	// Settings of the webhook that calls the policy.
	// +optional
	WebhookConfiguration *WebhookConfiguration `json:"webhookConfiguration,omitempty"`
	// The input of the policy, and when it is evaluated.
	// +optional
	Evaluation *MutatingPolicyEvaluation `json:"evaluation,omitempty"`
	// Whether the API server evaluates a generated MutatingAdmissionPolicy again after other changes: Never or IfNeeded. The default is
	// Never. It has no effect on Ephor's webhooks.
	// +optional
	ReinvocationPolicy admissionregistrationv1.ReinvocationPolicyType `json:"reinvocationPolicy,omitempty"`
	// CEL expressions whose values are added to the results in reports, and to the audit events of requests.
	// +optional
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
}

// TargetMatchConstraints selects existing resources to change, by constraints or by an expression.
//
// +structType=atomic
type TargetMatchConstraints struct {
	admissionregistrationv1.MatchResources `json:",inline"`
	// A CEL expression whose value is the resource to change, or a list of resources (an object with items).
	// +optional
	Expression string `json:"expression,omitempty"`
}

// MutatingPolicyEvaluation defines the input of a MutatingPolicy, and when it is evaluated.
type MutatingPolicyEvaluation struct {
	// Type of the input. Only Kubernetes (the default) has an effect.
	// +optional
	Mode EvaluationMode `json:"mode,omitempty"`
	// Whether the policy is evaluated at admission. The default is true.
	// +optional
	Admission *SwitchOn `json:"admission,omitempty"`
	// Whether the policy is evaluated on existing resources, for reports. The default is true.
	// +optional
	Background *SwitchOn `json:"background,omitempty"`
	// Whether the policy changes existing resources when a resource triggers it or the policy changes. The default is false.
	// +optional
	MutateExisting *SwitchOff `json:"mutateExisting,omitempty"`
	// Whether requests of the background controller are ignored, which prevents endless loops. The default is true.
	// +optional
	// +kubebuilder:default=true
	SkipBackgroundRequests *bool `json:"skipBackgroundRequests,omitempty"`
	// Whether apply configurations may change atomic lists, maps and structs. The default is false.
	// +optional
	UseServerSideApply *bool `json:"useServerSideApply,omitempty"`
}

// MutatingPolicyAutogen defines the policies that are generated from a MutatingPolicy.
type MutatingPolicyAutogen struct {
	// Generation of policies for the controllers of Pods.
	// +optional
	PodControllers *PodControllers `json:"podControllers,omitempty"`
	// Generation of a MutatingAdmissionPolicy, which the API server evaluates itself. The default is false.
	// +optional
	MutatingAdmissionPolicy *Switch `json:"mutatingAdmissionPolicy,omitempty"`
}

// MutatingPolicyStatus is the state of a MutatingPolicy in the cluster.
type MutatingPolicyStatus struct {
	// Whether the policy is ready, and its conditions.
	// +optional
	ConditionStatus *ConditionStatus `json:"conditionStatus,omitempty"`
	// The generated policies for the controllers of Pods.
	// +optional
	Autogen *MutatingPolicyAutogenStatus `json:"autogen,omitempty"`
	// Whether a MutatingAdmissionPolicy was generated.
	// +optional
	Generated *bool `json:"generated,omitempty"`
}

// MutatingPolicyAutogenStatus holds the generated policies, by the name of their configuration.
type MutatingPolicyAutogenStatus struct {
	// The generated policies, by the name of their configuration.
	// +optional
	Configs map[string]MutatingPolicyAutogenConfig `json:"configs,omitempty"`
}

// MutatingPolicyAutogenConfig is one generated policy.
type MutatingPolicyAutogenConfig struct {
	// The resources to which the generated policy applies.
	Targets []Target `json:"targets"`
	// Spec of the generated policy.
	Spec MutatingPolicySpec `json:"spec"`
}
