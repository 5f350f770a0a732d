package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Switch enables one part of a policy.
type Switch struct {
	// Whether this part is enabled.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// SwitchOn is a Switch that is enabled by default.
type SwitchOn struct {
	// Whether this part is enabled.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
}

// SwitchOff is a Switch that is disabled by default.
type SwitchOff struct {
	// Whether this part is enabled.
	// +optional
	// +kubebuilder:default=false
	Enabled *bool `json:"enabled,omitempty"`
}

// EvaluationMode is the type of input that a policy evaluates.
type EvaluationMode string

// The evaluation modes. An empty mode is Kubernetes.
const (
	EvaluationModeKubernetes EvaluationMode = "Kubernetes"
	EvaluationModeJSON       EvaluationMode = "JSON"
	EvaluationModeHTTP       EvaluationMode = "HTTP"
	EvaluationModeEnvoy      EvaluationMode = "Envoy"
)

// Evaluation defines the input of a policy, and when it is evaluated.
type Evaluation struct {
	// Type of the input. Kubernetes (the default): resources and admission requests. JSON: any JSON documents. HTTP and Envoy: requests
	// that an HTTP server or an Envoy proxy authorizes. The controllers evaluate Kubernetes only.
	// +optional
	Mode EvaluationMode `json:"mode,omitempty"`
	// Whether the policy is evaluated at admission. The default is true.
	// +optional
	Admission *SwitchOn `json:"admission,omitempty"`
	// Whether the policy is evaluated on existing resources, for reports. The default is true.
	// +optional
	Background *SwitchOn `json:"background,omitempty"`
}

// WebhookConfiguration configures the admission webhook of a policy.
type WebhookConfiguration struct {
	// Timeout of the webhook in seconds, from 1 to 30. The default is 10.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// PodControllers lists the controllers of Pods for which a policy for Pods is also generated.
type PodControllers struct {
	// Resources such as deployments. All six built-in controllers if absent, none if empty.
	// +optional
	Controllers []string `json:"controllers,omitempty"`
}

// ConditionStatus reports whether a policy is ready, and the reason if it is not.
type ConditionStatus struct {
	// Whether all conditions are true, so that the policy is in force.
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// The conditions of the policy: whether the webhooks are configured, and whether the controllers have the permissions that it needs.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Reports that an admission policy of the API server was generated, or the reason why none was.
	// +optional
	Message string `json:"message,omitempty"`
}

// Target is a resource to which a generated policy applies.
type Target struct {
	// API group. Empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// API version.
	Version string `json:"version"`
	// Plural name of the resource, such as deployments.
	Resource string `json:"resource"`
	// Kind of the resource.
	Kind string `json:"kind"`
}
