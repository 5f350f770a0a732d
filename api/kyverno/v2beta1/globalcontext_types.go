package v2beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
)

// GlobalContextEntry keeps data for the policies of the whole cluster.
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

	// Where the data come from.
	Spec GlobalContextEntrySpec `json:"spec"`
	// What the controllers made of the entry.
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

// GlobalContextEntrySpec says where the data come from.
//
// +ephor:exactlyOneOf=kubernetesResource;apiCall
type GlobalContextEntrySpec struct {
	// All resources of a kind, kept up to date.
	// +optional
	KubernetesResource *KubernetesResource `json:"kubernetesResource,omitempty"`
	// The answer of an HTTP call, repeated at an interval.
	// +optional
	APICall *ExternalAPICall `json:"apiCall,omitempty"`
	// Parts of the data that expressions can read without computing them each time.
	// +optional
	Projections []GlobalContextEntryProjection `json:"projections,omitempty"`
}

// KubernetesResource names a kind of resources.
type KubernetesResource struct {
	// API group; empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// API version.
	Version string `json:"version"`
	// Name of the resource in paths: pods, deployments.
	Resource string `json:"resource"`
	// The only namespace; all namespaces when empty.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ExternalAPICall is a call that is repeated.
type ExternalAPICall struct {
	kyvernov1.APICall `json:",inline"`
	// Time between calls.
	// +optional
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:default=`10m`
	RefreshInterval *metav1.Duration `json:"refreshInterval,omitempty"`
	// How often a call that failed is repeated at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=3
	RetryLimit int `json:"retryLimit,omitempty"`
}

// GlobalContextEntryProjection is a part of the data under a name of its own.
type GlobalContextEntryProjection struct {
	// The name behind the entry's: entry.name.
	Name string `json:"name"`
	// The expression that gives the part.
	JMESPath string `json:"jmesPath"`
}

// GlobalContextEntryStatus says what the controllers made of an entry.
type GlobalContextEntryStatus struct {
	// Whether the data are there (older form; read the condition Ready).
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// The condition Ready says whether the data are there.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// When the data were refreshed last.
	// +optional
	LastRefreshTime metav1.Time `json:"lastRefreshTime,omitempty,omitzero"`
}
