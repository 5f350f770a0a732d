package v2beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// GlobalContextEntry caches data for all policies, and keeps them up to date.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=globalcontextentries,scope=Cluster,shortName=gctxentry,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="REFRESH INTERVAL",type=string,JSONPath=".spec.apiCall.refreshInterval"
// +kubebuilder:printcolumn:name="LAST REFRESH",type=date,JSONPath=".status.lastRefreshTime"
type GlobalContextEntry struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The source of the data.
	Spec GlobalContextEntrySpec `json:"spec"`
	// The state of the entry in the cluster. The controllers write it.
	// +optional
	Status GlobalContextEntryStatus `json:"status,omitempty"`
}

// GlobalContextEntryList is a list of GlobalContextEntry.
//
// +kubebuilder:object:root=true
type GlobalContextEntryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GlobalContextEntry `json:"items"`
}

// GlobalContextEntrySpec defines the source of the data.
//
// +ephor:exactlyOneOf=kubernetesResource;apiCall
type GlobalContextEntrySpec struct {
	// Caches all resources of a kind, and keeps them up to date.
	// +optional
	KubernetesResource *KubernetesResource `json:"kubernetesResource,omitempty"`
	// Caches the response of an HTTP call, which is repeated at an interval.
	// +optional
	APICall *ExternalAPICall `json:"apiCall,omitempty"`
	// Named parts of the data, which are computed once for each change of the data.
	// +optional
	Projections []GlobalContextEntryProjection `json:"projections,omitempty"`
}

// KubernetesResource selects resources of one kind.
type KubernetesResource struct {
	// API group. Empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// API version.
	Version string `json:"version"`
	// Plural name of the resource, such as deployments.
	Resource string `json:"resource"`
	// Namespace of the resources. All namespaces if empty.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ExternalAPICall is an HTTP call that is repeated at an interval.
type ExternalAPICall struct {
	kyvernov1.APICall `json:",inline"`
	// Time between calls, such as 10m.
	// +optional
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:default=`10m`
	RefreshInterval *metav1.Duration `json:"refreshInterval,omitempty"`
	// Number of immediate retries of a failed call.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=3
	RetryLimit int `json:"retryLimit,omitempty"`
}

// GlobalContextEntryProjection is a named part of the data.
type GlobalContextEntryProjection struct {
	// Name of the part. References read it as ⟨entry⟩.⟨name⟩.
	Name string `json:"name"`
	// A JMESPath expression that returns the part.
	JMESPath string `json:"jmesPath"`
}

// GlobalContextEntryStatus is the state of an entry in the cluster.
type GlobalContextEntryStatus struct {
	// Whether the data are available (older form; read the condition Ready).
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// The condition Ready reports whether the data are available.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Time of the last refresh.
	// +optional
	LastRefreshTime metav1.Time `json:"lastRefreshTime,omitempty,omitzero"`
}
