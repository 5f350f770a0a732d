package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyreportv1alpha2 "ephor.invalid/ephor/api/policyreport/v1alpha2"
)

// EphemeralReport contains results about a resource in its namespace, until the reports controller adds them to the policy report.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=ephemeralreports,scope=Namespaced,shortName=ephr,categories=kyverno
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=".metadata.labels['audit\\.kyverno\\.io/source']"
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=".metadata.labels['audit\\.kyverno\\.io/resource\\.group']"
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=".metadata.labels['audit\\.kyverno\\.io/resource\\.kind']"
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=".metadata.annotations['audit\\.kyverno\\.io/resource\\.name']"
// +kubebuilder:printcolumn:name="Pass",type=integer,JSONPath=".spec.summary.pass"
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=".spec.summary.fail"
// +kubebuilder:printcolumn:name="Warn",type=integer,JSONPath=".spec.summary.warn"
// +kubebuilder:printcolumn:name="Error",type=integer,JSONPath=".spec.summary.error"
// +kubebuilder:printcolumn:name="Skip",type=integer,JSONPath=".spec.summary.skip"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Uid",type=string,priority=1,JSONPath=".metadata.labels['audit\\.kyverno\\.io/resource\\.uid']"
// +kubebuilder:printcolumn:name="Hash",type=string,priority=1,JSONPath=".metadata.labels['audit\\.kyverno\\.io/resource\\.hash']"
type EphemeralReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The results.
	Spec EphemeralReportSpec `json:"spec"`
}

// EphemeralReportList is a list of EphemeralReport.
//
// +kubebuilder:object:root=true
type EphemeralReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EphemeralReport `json:"items"`
}

// ClusterEphemeralReport contains results about a cluster-scoped resource, until the reports controller adds them to the policy report.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=clusterephemeralreports,scope=Cluster,shortName=cephr,categories=kyverno
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=".metadata.labels['audit\\.kyverno\\.io/source']"
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=".metadata.labels['audit\\.kyverno\\.io/resource\\.group']"
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=".metadata.labels['audit\\.kyverno\\.io/resource\\.kind']"
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=".metadata.annotations['audit\\.kyverno\\.io/resource\\.name']"
// +kubebuilder:printcolumn:name="Pass",type=integer,JSONPath=".spec.summary.pass"
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=".spec.summary.fail"
// +kubebuilder:printcolumn:name="Warn",type=integer,JSONPath=".spec.summary.warn"
// +kubebuilder:printcolumn:name="Error",type=integer,JSONPath=".spec.summary.error"
// +kubebuilder:printcolumn:name="Skip",type=integer,JSONPath=".spec.summary.skip"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Uid",type=string,JSONPath=".metadata.labels['audit\\.kyverno\\.io/resource\\.uid']"
// +kubebuilder:printcolumn:name="Hash",type=string,priority=1,JSONPath=".metadata.labels['audit\\.kyverno\\.io/resource\\.hash']"
type ClusterEphemeralReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The results.
	Spec EphemeralReportSpec `json:"spec"`
}

// ClusterEphemeralReportList is a list of ClusterEphemeralReport.
//
// +kubebuilder:object:root=true
type ClusterEphemeralReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterEphemeralReport `json:"items"`
}

// EphemeralReportSpec contains results about one resource.
type EphemeralReportSpec struct {
	// The resource. Older form of the owner reference.
	Owner metav1.OwnerReference `json:"owner"`
	// Number of results by status.
	// +optional
	Summary policyreportv1alpha2.Summary `json:"summary,omitempty"`
	// The results of the rules.
	// +optional
	Results []policyreportv1alpha2.Result `json:"results,omitempty"`
}
