package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyReport contains the results of policies for a resource in its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=policyreports,scope=Namespaced,shortName=polr
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=".scope.kind"
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=".scope.name"
// +kubebuilder:printcolumn:name="Pass",type=integer,JSONPath=".summary.pass"
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=".summary.fail"
// +kubebuilder:printcolumn:name="Warn",type=integer,JSONPath=".summary.warn"
// +kubebuilder:printcolumn:name="Error",type=integer,JSONPath=".summary.error"
// +kubebuilder:printcolumn:name="Skip",type=integer,JSONPath=".summary.skip"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type PolicyReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	ReportContent `json:",inline"`
}

// PolicyReportList is a list of PolicyReport.
//
// +kubebuilder:object:root=true
type PolicyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PolicyReport `json:"items"`
}

// ClusterPolicyReport contains the results of policies for a cluster-scoped resource.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=clusterpolicyreports,scope=Cluster,shortName=cpolr
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=".scope.kind"
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=".scope.name"
// +kubebuilder:printcolumn:name="Pass",type=integer,JSONPath=".summary.pass"
// +kubebuilder:printcolumn:name="Fail",type=integer,JSONPath=".summary.fail"
// +kubebuilder:printcolumn:name="Warn",type=integer,JSONPath=".summary.warn"
// +kubebuilder:printcolumn:name="Error",type=integer,JSONPath=".summary.error"
// +kubebuilder:printcolumn:name="Skip",type=integer,JSONPath=".summary.skip"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type ClusterPolicyReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	ReportContent `json:",inline"`
}

// ClusterPolicyReportList is a list of ClusterPolicyReport.
//
// +kubebuilder:object:root=true
type ClusterPolicyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterPolicyReport `json:"items"`
}

// ReportContent contains the fields that both kinds of reports have.
type ReportContent struct {
	// The resource to which the results apply.
	// +optional
	Scope *corev1.ObjectReference `json:"scope,omitempty"`
	// Selects the resources to which the results apply, if there are several.
	// +optional
	ScopeSelector *metav1.LabelSelector `json:"scopeSelector,omitempty"`
	// Number of results by status.
	// +optional
	Summary Summary `json:"summary,omitempty"`
	// The results of the rules.
	// +optional
	Results []Result `json:"results,omitempty"`
}

// Summary counts results.
type Summary struct {
	// Number of rules that pass.
	// +optional
	Pass int `json:"pass"`
	// Number of rules that fail.
	// +optional
	Fail int `json:"fail"`
	// Number of rules that fail in policies that are not scored.
	// +optional
	Warn int `json:"warn"`
	// Number of rules that could not be evaluated.
	// +optional
	Error int `json:"error"`
	// Number of rules that were skipped.
	// +optional
	Skip int `json:"skip"`
}

// Status is the result of a rule.
//
// +kubebuilder:validation:Enum=pass;fail;warn;error;skip
type Status string

// Severity is the severity of a violation.
//
// +kubebuilder:validation:Enum=critical;high;low;medium;info
type Severity string

// Result is the result of one rule.
type Result struct {
	// The engine that evaluated the rule, such as kyverno.
	// +optional
	Source string `json:"source,omitempty"`
	// The policy: its name, or namespace/name.
	Policy string `json:"policy"`
	// Name of the rule.
	// +optional
	Rule string `json:"rule,omitempty"`
	// The resources to which the result applies, if the report has no scope.
	// +optional
	Resources []corev1.ObjectReference `json:"resources,omitempty"`
	// Selects the resources to which the result applies, if the report has no scope.
	// +optional
	ResourceSelector *metav1.LabelSelector `json:"resourceSelector,omitempty"`
	// Message of the result.
	// +optional
	Message string `json:"message,omitempty"`
	// The status: pass, fail, warn, error or skip.
	// +optional
	Result Status `json:"result,omitempty"`
	// Whether a violation is a failure. Otherwise it is a warning.
	// +optional
	Scored bool `json:"scored,omitempty"`
	// Additional information about the result.
	// +optional
	Properties map[string]string `json:"properties,omitempty"`
	// Time of the evaluation.
	// +optional
	Timestamp metav1.Timestamp `json:"timestamp,omitempty"`
	// The policy's category.
	// +optional
	Category string `json:"category,omitempty"`
	// The policy's severity.
	// +optional
	Severity Severity `json:"severity,omitempty"`
}
