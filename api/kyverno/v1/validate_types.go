package v1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Validation checks resources by one of pattern, anyPattern, deny, foreach, podSecurity, cel, manifests or assert.
type Validation struct {
	// Enforce refuses requests that fail, Audit records them; the policy's action when empty.
	// +optional
	FailureAction *FailureAction `json:"failureAction,omitempty"`
	// Other actions for some namespaces; the first that covers a namespace counts.
	// +optional
	FailureActionOverrides []ValidationFailureActionOverride `json:"failureActionOverrides,omitempty"`
	// Lets resources be updated that broke the rule before the update.
	// +optional
	// +kubebuilder:default=true
	AllowExistingViolations *bool `json:"allowExistingViolations,omitempty"`
	// Shown when the rule fails; it may hold variables and references.
	// +optional
	Message string `json:"message,omitempty"`
	// Manifests that have to be signed.
	// +optional
	Manifests *Manifests `json:"manifests,omitempty"`
	// Checks for each element of a list.
	// +optional
	ForEachValidation []ForEachValidation `json:"foreach,omitempty"`
	// The shape that the resource must have.
	// +optional
	RawPattern *apiextensionsv1.JSON `json:"pattern,omitempty"`
	// Shapes of which the resource must have one.
	// +optional
	RawAnyPattern *apiextensionsv1.JSON `json:"anyPattern,omitempty"`
	// Conditions under which the rule fails.
	// +optional
	Deny *Deny `json:"deny,omitempty"`
	// Controls of the Pod Security Standards.
	// +optional
	PodSecurity *PodSecurity `json:"podSecurity,omitempty"`
	// CEL expressions that must hold.
	// +optional
	CEL *CEL `json:"cel,omitempty"`
	// Assertion tree; accepted and not evaluated.
	// +optional
	Assert *apiextensionsv1.JSON `json:"assert,omitempty"`
}

// Deny fails the rule when its conditions hold; without conditions it always does.
type Deny struct {
	// A map of any and all, or a plain list, which means all.
	// +optional
	RawAnyAllConditions *apiextensionsv1.JSON `json:"conditions,omitempty"`
}

// ForEachValidation checks each element of a list by one of pattern, anyPattern, deny or a nested foreach.
type ForEachValidation struct {
	// Expression that gives the list.
	// +optional
	List string `json:"list,omitempty"`
	// Whether patterns are held against the element (true) or the whole resource (false). The element when empty and
	// the elements are objects.
	// +optional
	ElementScope *bool `json:"elementScope,omitempty"`
	// Values for the expressions, which may use element and elementIndex.
	// +optional
	Context []ContextEntry `json:"context,omitempty"`
	// Conditions under which an element is checked.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	AnyAllConditions *AnyAllConditions `json:"preconditions,omitempty"`
	// The shape that each element must have.
	// +optional
	RawPattern *apiextensionsv1.JSON `json:"pattern,omitempty"`
	// Shapes of which each element must have one.
	// +optional
	RawAnyPattern *apiextensionsv1.JSON `json:"anyPattern,omitempty"`
	// Conditions under which an element fails.
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
	// The level.
	// +optional
	// +kubebuilder:validation:Enum=privileged;baseline;restricted
	Level string `json:"level,omitempty"`
	// The Kubernetes version whose controls are meant; latest when empty.
	// +optional
	// +kubebuilder:validation:Enum=v1.19;v1.20;v1.21;v1.22;v1.23;v1.24;v1.25;v1.26;v1.27;v1.28;v1.29;v1.30;v1.31;v1.32;latest
	Version string `json:"version,omitempty"`
	// Controls that are not checked, in part or in whole.
	// +optional
	Exclude []PodSecurityStandard `json:"exclude,omitempty"`
}

// PodSecurityStandard exempts from one control.
type PodSecurityStandard struct {
	// The control.
	// +kubebuilder:validation:Enum=HostProcess;Host Namespaces;Privileged Containers;Capabilities;HostPath Volumes;Host Ports;AppArmor;SELinux;/proc Mount Type;Seccomp;Sysctls;Volume Types;Privilege Escalation;Running as Non-root;Running as Non-root user
	ControlName string `json:"controlName"`
	// Images of the containers that are exempt; wildcards are allowed. Without images the Pod's own fields are exempt.
	// +optional
	Images []string `json:"images,omitempty"`
	// The only field that is exempt.
	// +optional
	RestrictedField string `json:"restrictedField,omitempty"`
	// The only values of that field that are exempt.
	// +optional
	Values []string `json:"values,omitempty"`
}

// CEL checks resources by CEL expressions, in the words of ValidatingAdmissionPolicy.
type CEL struct {
	// Turns the rule into a ValidatingAdmissionPolicy of the API server.
	// +optional
	// +kubebuilder:default=false
	Generate *bool `json:"generate,omitempty"`
	// Expressions that must hold.
	// +optional
	Expressions []admissionregistrationv1.Validation `json:"expressions,omitempty"`
	// Kind of the parameters.
	// +optional
	ParamKind *admissionregistrationv1.ParamKind `json:"paramKind,omitempty"`
	// The parameters.
	// +optional
	ParamRef *admissionregistrationv1.ParamRef `json:"paramRef,omitempty"`
	// Expressions whose values are recorded.
	// +optional
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
	// Named expressions for the others.
	// +optional
	Variables []admissionregistrationv1.Variable `json:"variables,omitempty"`
}
