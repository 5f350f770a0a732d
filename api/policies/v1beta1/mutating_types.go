package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MutatingPolicy changes resources with expressions.
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

	// What is changed.
	Spec MutatingPolicySpec `json:"spec"`
	// What the controllers made of the policy.
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

// NamespacedMutatingPolicy changes resources with expressions, in its own namespace.
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

	// What is changed.
	Spec MutatingPolicySpec `json:"spec"`
	// What the controllers made of the policy.
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

// MutatingPolicySpec says which resources are changed, and how.
type MutatingPolicySpec struct {
	// The resources that the policy is for.
	// +optional
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// What an error means: Fail (the default) denies the request, Ignore admits it as it is.
	// +optional
	// +kubebuilder:validation:Enum=Ignore;Fail
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
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
	// The policies that are generated from this one.
	// +optional
	Autogen *MutatingPolicyAutogen `json:"autogen,omitempty"`
	// The existing resources that are changed, instead of the resource that is admitted.
	// +optional
	TargetMatchConstraints *TargetMatchConstraints `json:"targetMatchConstraints,omitempty"`
	// What has to be true of an existing resource.
	// +optional
	// +listType=map
	// +listMapKey=name
	TargetMatchConditions []admissionregistrationv1.MatchCondition `json:"targetMatchConditions,omitempty"`
	// The changes, in order.
	// +optional
	// +listType=atomic
	Mutations []admissionregistrationv1.Mutation `json:"mutations,omitempty"`
	// The webhook of the policy.
	// +optional
	WebhookConfiguration *WebhookConfiguration `json:"webhookConfiguration,omitempty"`
	// When and for what the policy is evaluated.
	// +optional
	Evaluation *MutatingPolicyEvaluation `json:"evaluation,omitempty"`
	// Whether a generated MutatingAdmissionPolicy is evaluated again after others: Never (the default) or IfNeeded.
	// +optional
	ReinvocationPolicy admissionregistrationv1.ReinvocationPolicyType `json:"reinvocationPolicy,omitempty"`
	// Values that are added to the entries of reports.
	// +optional
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
}

// TargetMatchConstraints says which existing resources are changed: by constraints, or by an expression.
//
// +structType=atomic
type TargetMatchConstraints struct {
	admissionregistrationv1.MatchResources `json:",inline"`
	// Gives the resource, or an object with items.
	// +optional
	Expression string `json:"expression,omitempty"`
}

// MutatingPolicyEvaluation says when and for what a MutatingPolicy is evaluated.
type MutatingPolicyEvaluation struct {
	// What the policy is evaluated for; only Kubernetes has a meaning.
	// +optional
	Mode EvaluationMode `json:"mode,omitempty"`
	// Evaluation of admission requests.
	// +optional
	Admission *SwitchOn `json:"admission,omitempty"`
	// Evaluation of existing resources, for reports.
	// +optional
	Background *SwitchOn `json:"background,omitempty"`
	// Changes of existing resources.
	// +optional
	MutateExisting *SwitchOff `json:"mutateExisting,omitempty"`
	// Whether requests of the background controller are left out.
	// +optional
	// +kubebuilder:default=true
	SkipBackgroundRequests *bool `json:"skipBackgroundRequests,omitempty"`
	// Whether apply configurations may change atomic lists, maps and structs.
	// +optional
	UseServerSideApply *bool `json:"useServerSideApply,omitempty"`
}

// MutatingPolicyAutogen says which policies are generated from a MutatingPolicy.
type MutatingPolicyAutogen struct {
	// Policies for the controllers of Pods.
	// +optional
	PodControllers *PodControllers `json:"podControllers,omitempty"`
	// A MutatingAdmissionPolicy of the API server.
	// +optional
	MutatingAdmissionPolicy *Switch `json:"mutatingAdmissionPolicy,omitempty"`
}

// MutatingPolicyStatus says what the controllers made of a policy.
type MutatingPolicyStatus struct {
	// Whether the policy is ready.
	// +optional
	ConditionStatus *ConditionStatus `json:"conditionStatus,omitempty"`
	// The policies for the controllers of Pods.
	// +optional
	Autogen *MutatingPolicyAutogenStatus `json:"autogen,omitempty"`
	// Whether a MutatingAdmissionPolicy was generated.
	// +optional
	Generated *bool `json:"generated,omitempty"`
}

// MutatingPolicyAutogenStatus holds the generated policies, by the name of their configuration.
type MutatingPolicyAutogenStatus struct {
	// The generated policies.
	// +optional
	Configs map[string]MutatingPolicyAutogenConfig `json:"configs,omitempty"`
}

// MutatingPolicyAutogenConfig is a generated policy.
type MutatingPolicyAutogenConfig struct {
	// The resources that it is for.
	Targets []Target `json:"targets"`
	// Its spec.
	Spec MutatingPolicySpec `json:"spec"`
}
