package v1beta1

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
)

// UpdateRequest is work that a request triggered. It is executed after the request is admitted.
//
// +kubebuilder:subresource:status
// +kubebuilder:unservedversion
// +kubebuilder:resource:path=updaterequests,scope=Namespaced,shortName=ur,categories=kyverno
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=".spec.policy"
// +kubebuilder:printcolumn:name="Rule",type=string,JSONPath=".spec.rule"
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

// RequestType is the type of the rule that requires the work.
//
// +kubebuilder:validation:Enum=mutate;generate
type RequestType string

// UpdateRequestSpec contains the work of one rule, and the request that is needed to evaluate it again.
type UpdateRequestSpec struct {
	// Type of the rule.
	// +optional
	RequestType RequestType `json:"requestType,omitempty"`
	// The policy: its name, or namespace/name.
	Policy string `json:"policy"`
	// Name of the rule.
	Rule string `json:"rule"`
	// Whether the generated resources are deleted.
	DeleteDownstream bool `json:"deleteDownstream"`
	// Whether the generated resources are kept equal to their source.
	// +optional
	Synchronize bool `json:"synchronize,omitempty"`
	// The object whose request triggered the work.
	Resource kyvernov2.ResourceSpec `json:"resource"`
	// The request that triggered the work.
	Context UpdateRequestContext `json:"context"`
}

// UpdateRequestContext contains the request that triggered the work.
type UpdateRequestContext struct {
	// The requester.
	// +optional
	UserInfo RequestInfo `json:"userInfo,omitempty"`
	// The admission request.
	// +optional
	AdmissionRequestInfo kyvernov2.AdmissionRequestInfo `json:"admissionRequestInfo,omitempty"`
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
}

// UpdateRequestStatus is the state of the work.
type UpdateRequestStatus struct {
	// The replica that executed the work.
	// +optional
	Handler string `json:"handler,omitempty"`
	// State of the work: Pending, Completed, Failed or Skip.
	State kyvernov2.UpdateRequestState `json:"state"`
	// The reason of a failure.
	// +optional
	Message string `json:"message,omitempty"`
	// The resources that were generated.
	// +optional
	GeneratedResources []kyvernov2.ResourceSpec `json:"generatedResources,omitempty"`
	// Number of retries.
	// +optional
	RetryCount int `json:"retryCount,omitempty"`
}
