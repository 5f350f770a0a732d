package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Switch turns one part of a policy on or off.
type Switch struct {
	// Whether the part is on.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// SwitchOn is a Switch that is on when it says nothing.
type SwitchOn struct {
	// Whether the part is on.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
}

// SwitchOff is a Switch that is off when it says nothing.
type SwitchOff struct {
	// Whether the part is on.
	// +optional
	// +kubebuilder:default=false
	Enabled *bool `json:"enabled,omitempty"`
}

// EvaluationMode says what a policy is evaluated for.
type EvaluationMode string

// The modes; an empty one is Kubernetes.
const (
	EvaluationModeKubernetes EvaluationMode = "Kubernetes"
	EvaluationModeJSON       EvaluationMode = "JSON"
	EvaluationModeHTTP       EvaluationMode = "HTTP"
	EvaluationModeEnvoy      EvaluationMode = "Envoy"
)

// Evaluation says when and for what a policy is evaluated.
type Evaluation struct {
	// What the policy is evaluated for: Kubernetes (the default), JSON, HTTP, or Envoy.
	// +optional
	Mode EvaluationMode `json:"mode,omitempty"`
	// Evaluation of admission requests.
	// +optional
	Admission *SwitchOn `json:"admission,omitempty"`
	// Evaluation of existing resources.
	// +optional
	Background *SwitchOn `json:"background,omitempty"`
}

// WebhookConfiguration configures the webhook of a policy.
type WebhookConfiguration struct {
	// Seconds that the API server waits for the answer.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// PodControllers names the controllers of Pods that a policy for Pods is generated for.
type PodControllers struct {
	// Resources such as deployments; all six built-in ones when absent, none when empty.
	// +optional
	Controllers []string `json:"controllers,omitempty"`
}

// ConditionStatus says whether a policy is ready, and why not.
type ConditionStatus struct {
	// Whether all conditions are true.
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// Whether the policy is served, and whether the controllers have the rights that it needs.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Why no native admission policy was generated, or that one was.
	// +optional
	Message string `json:"message,omitempty"`
}

// Target is a resource that a generated policy is for.
type Target struct {
	// API group; empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// API version.
	Version string `json:"version"`
	// Name of the resource in paths.
	Resource string `json:"resource"`
	// Kind of the resource.
	Kind string `json:"kind"`
}
