package v1beta1

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
)

// UpdateRequest is work that a request asked for and that is carried out after it.
//
// +kubebuilder:object:root=true
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

	// What is to be done.
	// +optional
	Spec UpdateRequestSpec `json:"spec,omitempty"`
	// What became of it.
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

// RequestType says what kind of rule asks for the work.
//
// +kubebuilder:validation:Enum=mutate;generate
type RequestType string

// UpdateRequestSpec is the work of one rule, with all that is needed to evaluate it again.
type UpdateRequestSpec struct {
	// What kind of rule asks for the work.
	// +optional
	RequestType RequestType `json:"requestType,omitempty"`
	// The policy: its name, with its namespace and a slash before it when it has one.
	Policy string `json:"policy"`
	// The rule.
	Rule string `json:"rule"`
	// Whether what was generated is deleted.
	DeleteDownstream bool `json:"deleteDownstream"`
	// Whether what is generated is kept equal to its source.
	// +optional
	Synchronize bool `json:"synchronize,omitempty"`
	// The object whose request asked for the work.
	Resource kyvernov2.ResourceSpec `json:"resource"`
	// The request that asked for the work.
	Context UpdateRequestContext `json:"context"`
}

// UpdateRequestContext is the request that asked for the work.
type UpdateRequestContext struct {
	// Who made it.
	// +optional
	UserInfo RequestInfo `json:"userInfo,omitempty"`
	// What it was.
	// +optional
	AdmissionRequestInfo kyvernov2.AdmissionRequestInfo `json:"admissionRequestInfo,omitempty"`
}

// RequestInfo is a user with the roles that were bound to them.
type RequestInfo struct {
	// Roles, each as namespace:name.
	// +optional
	// +nullable
	Roles []string `json:"roles"`
	// Cluster roles.
	// +optional
	// +nullable
	ClusterRoles []string `json:"clusterRoles"`
	// The user as the API server knows them.
	// +optional
	UserInfo authenticationv1.UserInfo `json:"userInfo"`
}

// UpdateRequestStatus is what became of the work.
type UpdateRequestStatus struct {
	// The instance that carried it out.
	// +optional
	Handler string `json:"handler,omitempty"`
	// How far it is.
	State kyvernov2.UpdateRequestState `json:"state"`
	// Why it failed.
	// +optional
	Message string `json:"message,omitempty"`
	// What was generated.
	// +optional
	GeneratedResources []kyvernov2.ResourceSpec `json:"generatedResources,omitempty"`
	// How often it was tried again.
	// +optional
	RetryCount int `json:"retryCount,omitempty"`
}
