package v2alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov2beta1 "ephor.invalid/ephor/api/kyverno/v2beta1"
)

// GlobalContextEntry caches data for all policies, and keeps them up to date.
//
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=globalcontextentries,scope=Cluster,shortName=gctxentry,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="REFRESH INTERVAL",type=string,JSONPath=".spec.apiCall.refreshInterval"
// +kubebuilder:printcolumn:name="LAST REFRESH",type=date,JSONPath=".status.lastRefreshTime"
type GlobalContextEntry struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The source of the data.
	Spec kyvernov2beta1.GlobalContextEntrySpec `json:"spec"`
	// The state of the entry in the cluster. The controllers write it.
	// +optional
	Status kyvernov2beta1.GlobalContextEntryStatus `json:"status,omitempty"`
}
