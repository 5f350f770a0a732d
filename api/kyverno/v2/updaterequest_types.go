package v2

import (
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// UpdateRequest is work that a request triggered: objects to generate, or targets to change. The admission controller writes it; the
// background controller executes and deletes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=updaterequests,scope=Namespaced,shortName=ur,categories=kyverno
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=".spec.policy"
// +kubebuilder:printcolumn:name="RuleType",type=string,JSONPath=".spec.requestType"
// +kubebuilder:printcolumn:name="ResourceKind",type=string,JSONPath=".spec.resource.kind"
// +kubebuilder:printcolumn:name="ResourceName",type=string,JSONPath=".spec.resource.name"
// +kubebuilder:printcolumn:name="ResourceNamespace",type=string,JSONPath=".spec.resource.namespace"
// +kubebuilder:printcolumn:name="status",type=string,JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type UpdateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The work.
	// +optional
	Spec UpdateRequestSpec `json:"spec,omitempty"`
	// The state of the work.
	// +optional
	Status UpdateRequestStatus `json:"status,omitempty,omitzero"`
}

// UpdateRequestList is a list of UpdateRequest.
//
// +kubebuilder:object:root=true
type UpdateRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UpdateRequest `json:"items"`
}

// RequestType is the type of the policy that requires the work.
//
// +kubebuilder:validation:Enum=mutate;generate;cel-generate;cel-mutate
type RequestType string

// The types of requests: the targets of a mutate rule, the objects of a generate rule, and the same of the CEL kinds.
const (
	Mutate      RequestType = "mutate"
	Generate    RequestType = "generate"
	CELGenerate RequestType = "cel-generate"
	CELMutate   RequestType = "cel-mutate"
)

// UpdateRequestSpec contains the work, and the request that is needed to evaluate the rules again.
type UpdateRequestSpec struct {
	// Type of the policy.
	// +optional
	RequestType RequestType `json:"requestType,omitempty"`
	// The policy: its name, or namespace/name.
	Policy string `json:"policy"`
	// The mutate rule.
	Rule string `json:"rule"`
	// Whether the generated resources are deleted. Older form of the field in ruleContext.
	DeleteDownstream bool `json:"deleteDownstream"`
	// Whether the generated resources are kept equal to their source. Older form of the field in ruleContext.
	// +optional
	Synchronize bool `json:"synchronize,omitempty"`
	// The object whose request triggered the work.
	Resource ResourceSpec `json:"resource"`
	// The rules, each with its trigger.
	// +optional
	RuleContext []RuleContext `json:"ruleContext,omitempty"`
	// The request that triggered the work.
	Context UpdateRequestContext `json:"context"`
}

// ResourceSpec is a reference to an object.
type ResourceSpec struct {
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// RuleContext is one rule with its trigger.
type RuleContext struct {
	// The rule's name.
	Rule string `json:"rule"`
	// Whether the resources that the rule generated for the trigger are deleted.
	DeleteDownstream bool `json:"deleteDownstream"`
	// Whether the generated resources are kept equal to their source.
	// +optional
	Synchronize bool `json:"synchronize,omitempty"`
	// Whether the work is done again after a restart, for what is only kept in memory.
	// +optional
	CacheRestore bool `json:"cacheRestore,omitempty"`
	// The object that the rule matched.
	Trigger ResourceSpec `json:"trigger"`
}

// UpdateRequestContext contains the request that triggered the work.
type UpdateRequestContext struct {
	// The requester.
	// +optional
	UserInfo RequestInfo `json:"userInfo,omitempty"`
	// The admission request.
	// +optional
	AdmissionRequestInfo AdmissionRequestInfo `json:"admissionRequestInfo,omitempty"`
}

// RequestInfo is a user and the roles that are bound to the user.
type RequestInfo struct {
	// Roles of the user, each as namespace:name.
	// +optional
	// +nullable
	Roles []string `json:"roles"`
	// Cluster roles of the user.
	// +optional
	// +nullable
	ClusterRoles []string `json:"clusterRoles"`
	// The user, as the API server authenticated the request.
	// +optional
	UserInfo authenticationv1.UserInfo `json:"userInfo"`
	// Whether the request was a dry run. The name is that of the documented API.
	// +optional
	DryRun *bool `json:"synchronize,omitempty"`
}

// AdmissionRequestInfo is an admission request.
type AdmissionRequestInfo struct {
	// The request as the API server sent it.
	// +optional
	AdmissionRequest *AdmissionRequest `json:"admissionRequest,omitempty"`
	// Its operation.
	// +optional
	Operation admissionv1.Operation `json:"operation,omitempty"`
}

// AdmissionRequest is the request of an admission.k8s.io/v1 AdmissionReview.
type AdmissionRequest struct {
	// +optional
	UID types.UID `json:"uid"`
	// +optional
	Kind metav1.GroupVersionKind `json:"kind"`
	// +optional
	Resource metav1.GroupVersionResource `json:"resource"`
	// +optional
	SubResource string `json:"subResource,omitempty"`
	// +optional
	RequestKind *metav1.GroupVersionKind `json:"requestKind,omitempty"`
	// +optional
	RequestResource *metav1.GroupVersionResource `json:"requestResource,omitempty"`
	// +optional
	RequestSubResource string `json:"requestSubResource,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Operation admissionv1.Operation `json:"operation"`
	// +optional
	UserInfo authenticationv1.UserInfo `json:"userInfo"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Object runtime.RawExtension `json:"object,omitempty"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	OldObject runtime.RawExtension `json:"oldObject,omitempty"`
	// +optional
	DryRun *bool `json:"dryRun,omitempty"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Options runtime.RawExtension `json:"options,omitempty"`
}

// UpdateRequestState is the state of the work of an UpdateRequest.
type UpdateRequestState string

// The states. An empty state is Pending.
const (
	Pending   UpdateRequestState = "Pending"
	Failed    UpdateRequestState = "Failed"
	Completed UpdateRequestState = "Completed"
	Skip      UpdateRequestState = "Skip"
)

// UpdateRequestStatus is the state of the work.
type UpdateRequestStatus struct {
	// State of the work: Pending, Completed, Failed or Skip.
	State UpdateRequestState `json:"state"`
	// The reason of a failure.
	// +optional
	Message string `json:"message,omitempty"`
	// The resources that were generated.
	// +optional
	GeneratedResources []ResourceSpec `json:"generatedResources,omitempty"`
	// Number of retries.
	// +optional
	RetryCount int `json:"retryCount,omitempty"`
	// The generation to which state, message and retryCount belong.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
