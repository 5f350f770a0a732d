package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Report says what the policies make of a resource in its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=reports,scope=Namespaced,shortName=reps
// +kubebuilder:printcolumn:name="Kind",type=string,priority=1,JSONPath=".scope.kind"
// +kubebuilder:printcolumn:name="Name",type=string,priority=1,JSONPath=".scope.name"
// +kubebuilder:printcolumn:name="Pass",type=integer,JSONPath=".summary.pass"
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=".summary.fail"
// +kubebuilder:printcolumn:name="Warn",type=integer,JSONPath=".summary.warn"
// +kubebuilder:printcolumn:name="Error",type=integer,JSONPath=".summary.error"
// +kubebuilder:printcolumn:name="Skip",type=integer,JSONPath=".summary.skip"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type Report struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	ReportContent `json:",inline"`
}

// ReportList is a list of Report.
//
// +kubebuilder:object:root=true
type ReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Report `json:"items"`
}

// ClusterReport says what the policies make of a cluster-scoped resource.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=clusterreports,scope=Cluster,shortName=creps
// +kubebuilder:printcolumn:name="Kind",type=string,priority=1,JSONPath=".scope.kind"
// +kubebuilder:printcolumn:name="Name",type=string,priority=1,JSONPath=".scope.name"
// +kubebuilder:printcolumn:name="Pass",type=integer,JSONPath=".summary.pass"
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=".summary.fail"
// +kubebuilder:printcolumn:name="Warn",type=integer,JSONPath=".summary.warn"
// +kubebuilder:printcolumn:name="Error",type=integer,JSONPath=".summary.error"
// +kubebuilder:printcolumn:name="Skip",type=integer,JSONPath=".summary.skip"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type ClusterReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	ReportContent `json:",inline"`
}

// ClusterReportList is a list of ClusterReport.
//
// +kubebuilder:object:root=true
type ClusterReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterReport `json:"items"`
}

// ReportContent is what both kinds of reports hold.
type ReportContent struct {
	// The engine that all results come from; each result may name its own.
	// +optional
	Source string `json:"source"`
	// The resource that the report is about.
	// +optional
	Scope *corev1.ObjectReference `json:"scope,omitempty"`
	// The resources that the report is about, where it is not one.
	// +optional
	ScopeSelector *metav1.LabelSelector `json:"scopeSelector,omitempty"`
	// What the writer of the report leaves out.
	// +optional
	Configuration *Configuration `json:"configuration,omitempty"`
	// How many results there are of each kind.
	// +optional
	Summary Summary `json:"summary,omitempty"`
	// What each rule says.
	// +optional
	Results []Result `json:"results,omitempty"`
}

// Configuration is what the writer of a report leaves out.
type Configuration struct {
	// What is left out.
	Limits Limits `json:"limits"`
}

// Limits of a report.
type Limits struct {
	// The most results that the report holds.
	// +optional
	MaxResults int `json:"maxResults"`
	// The results that the report holds.
	// +optional
	StatusFilter []Status `json:"statusFilter,omitempty"`
}

// Summary counts results.
type Summary struct {
	// Rules that the resource fulfils.
	// +optional
	Pass int `json:"pass"`
	// Rules that it violates.
	// +optional
	Fail int `json:"fail"`
	// Rules of policies that are not scored, that it violates.
	// +optional
	Warn int `json:"warn"`
	// Rules that could not be evaluated.
	// +optional
	Error int `json:"error"`
	// Rules that were not applied to it.
	// +optional
	Skip int `json:"skip"`
}

// Status is the result of a rule.
//
// +kubebuilder:validation:Enum=pass;fail;warn;error;skip
type Status string

// Severity is how much a violation of a policy matters.
//
// +kubebuilder:validation:Enum=critical;high;low;medium;info
type Severity string

// Result is what one rule says.
type Result struct {
	// The engine that the result comes from.
	// +optional
	Source string `json:"source"`
	// The policy: its name, with its namespace and a slash before it when it has one.
	Policy string `json:"policy"`
	// The rule.
	// +optional
	Rule string `json:"rule,omitempty"`
	// The resources, where the report is not about one.
	// +optional
	Subjects []corev1.ObjectReference `json:"resources,omitempty"`
	// The resources by their labels, where the report is not about one.
	// +optional
	ResourceSelector *metav1.LabelSelector `json:"resourceSelector,omitempty"`
	// In words what the rule says.
	// +optional
	Description string `json:"message,omitempty"`
	// The result.
	// +optional
	Result Status `json:"result,omitempty"`
	// Whether a violation counts as a failure.
	// +optional
	Scored bool `json:"scored,omitempty"`
	// What else there is to say.
	// +optional
	Properties map[string]string `json:"properties,omitempty"`
	// When the result was found.
	// +optional
	Timestamp metav1.Timestamp `json:"timestamp,omitempty"`
	// The policy's category.
	// +optional
	Category string `json:"category,omitempty"`
	// The policy's severity.
	// +optional
	Severity Severity `json:"severity,omitempty"`
}
