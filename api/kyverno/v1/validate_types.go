package v1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Validation validates resources by one of pattern, anyPattern, deny, foreach, podSecurity, cel, manifests or assert.
type Validation struct {
	// How a failure affects a request: Enforce denies it, Audit admits it and reports the failure. The default is the policy's
	// validationFailureAction.
	// +optional
	FailureAction *FailureAction `json:"failureAction,omitempty"`
	// Failure actions for some namespaces. The first entry that matches a namespace applies.
	// +optional
	FailureActionOverrides []ValidationFailureActionOverride `json:"failureActionOverrides,omitempty"`
	// Whether a resource that violated the rule before an update may be updated. The default is true.
	// +optional
	// +kubebuilder:default=true
	AllowExistingViolations *bool `json:"allowExistingViolations,omitempty"`
	// Message of a failure. It may contain variables and references.
	// +optional
	Message string `json:"message,omitempty"`
	// Requires a signature on the manifest of the resource.
	// +optional
	Manifests *Manifests `json:"manifests,omitempty"`
	// Validates each element of a list.
	// +optional
	ForEachValidation []ForEachValidation `json:"foreach,omitempty"`
	// A pattern that the resource must match.
	// +optional
	RawPattern *apiextensionsv1.JSON `json:"pattern,omitempty"`
	// Patterns of which the resource must match at least one.
	// +optional
	RawAnyPattern *apiextensionsv1.JSON `json:"anyPattern,omitempty"`
	// Conditions that make the rule fail.
	// +optional
	Deny *Deny `json:"deny,omitempty"`
	// Validates Pods by the controls of the Pod Security Standards.
	// +optional
	PodSecurity *PodSecurity `json:"podSecurity,omitempty"`
	// Validates resources by CEL expressions.
	// +optional
	CEL *CEL `json:"cel,omitempty"`
	// Assertion tree; accepted and not evaluated.
	// +optional
	Assert *apiextensionsv1.JSON `json:"assert,omitempty"`
}

// Deny makes the rule fail if its conditions are true. Without conditions the rule always fails.
type Deny struct {
	// The conditions: a map of any and all, or a list, which means all.
	// +optional
	RawAnyAllConditions *apiextensionsv1.JSON `json:"conditions,omitempty"`
}

// ForEachValidation checks each element of a list by one of pattern, anyPattern, deny or a nested foreach.
type ForEachValidation struct {
	// A JMESPath expression that returns the list.
	// +optional
	List string `json:"list,omitempty"`
	// Whether patterns are compared with the element (true) or with the whole resource (false). The default is true if the elements are
	// objects.
	// +optional
	ElementScope *bool `json:"elementScope,omitempty"`
	// Named values for the expressions of an element. They may use element and elementIndex.
	// +optional
	Context []ContextEntry `json:"context,omitempty"`
	// Conditions that must be true for an element to be validated.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	AnyAllConditions *AnyAllConditions `json:"preconditions,omitempty"`
	// A pattern that each element must match.
	// +optional
	RawPattern *apiextensionsv1.JSON `json:"pattern,omitempty"`
	// Patterns of which each element must match at least one.
	// +optional
	RawAnyPattern *apiextensionsv1.JSON `json:"anyPattern,omitempty"`
	// Conditions that make an element fail.
	// +optional
	Deny *Deny `json:"deny,omitempty"`
	// Checks for each element of a list inside the element.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	ForEachValidation []ForEachValidation `json:"foreach,omitempty"`
}

// PodSecurity checks the controls of a level of the Pod Security Standards.
type PodSecurity struct {
	// The level: privileged, baseline or restricted.
	// +optional
	// +kubebuilder:validation:Enum=privileged;baseline;restricted
	Level string `json:"level,omitempty"`
	// Version of Kubernetes whose controls are checked, such as v1.37. The default is latest, the version of the API server.
	// +optional
	// +kubebuilder:validation:Enum=v1.19;v1.20;v1.21;v1.22;v1.23;v1.24;v1.25;v1.26;v1.27;v1.28;v1.29;v1.30;v1.31;v1.32;v1.33;v1.34;v1.35;v1.36;v1.37;latest
	Version string `json:"version,omitempty"`
	// Controls that are not checked, or only in part.
	// +optional
	Exclude []PodSecurityStandard `json:"exclude,omitempty"`
}

// PodSecurityStandard is an exemption from one control.
type PodSecurityStandard struct {
	// Name of the control, such as Capabilities.
	// +kubebuilder:validation:Enum=HostProcess;Host Namespaces;Privileged Containers;Capabilities;HostPath Volumes;Host Ports;AppArmor;SELinux;/proc Mount Type;Seccomp;Sysctls;Volume Types;Privilege Escalation;Running as Non-root;Running as Non-root user
	ControlName string `json:"controlName"`
	// Images of the exempt containers. Wildcards are allowed. Without images, fields of the Pod itself are exempt.
	// +optional
	Images []string `json:"images,omitempty"`
	// Path of the only exempt field. The whole control if empty.
	// +optional
	RestrictedField string `json:"restrictedField,omitempty"`
	// The exempt values of restrictedField.
	// +optional
	Values []string `json:"values,omitempty"`
}

// CEL validates resources by CEL expressions. Its fields are those of a ValidatingAdmissionPolicy.
type CEL struct {
	// Whether a ValidatingAdmissionPolicy is generated from the rule, which the API server evaluates itself. The default is false.
	// +optional
	// +kubebuilder:default=false
	Generate *bool `json:"generate,omitempty"`
	// CEL expressions that must be true, with the messages of failures.
	// +optional
	Expressions []admissionregistrationv1.Validation `json:"expressions,omitempty"`
	// Kind of the resources that the expressions read as params.
	// +optional
	ParamKind *admissionregistrationv1.ParamKind `json:"paramKind,omitempty"`
	// Selects the resources that the expressions read as params.
	// +optional
	ParamRef *admissionregistrationv1.ParamRef `json:"paramRef,omitempty"`
	// CEL expressions whose values are added to the audit events of requests.
	// +optional
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
	// Named CEL expressions. Later expressions read their values as variables.⟨name⟩.
	// +optional
	Variables []admissionregistrationv1.Variable `json:"variables,omitempty"`
}
