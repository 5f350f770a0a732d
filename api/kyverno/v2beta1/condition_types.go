package v2beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// AnyAllConditions is true if at least one condition of any and every condition of all is true. An empty list is true.
type AnyAllConditions struct {
	// At least one of these conditions must be true.
	// +optional
	AnyConditions []Condition `json:"any,omitempty"`
	// Every one of these conditions must be true.
	// +optional
	AllConditions []Condition `json:"all,omitempty"`
}

// Condition compares a key with a value.
type Condition struct {
	// The value to compare: any JSON value, usually a variable such as "{{ request.object.spec.replicas }}".
	// +optional
	RawKey *apiextensionsv1.JSON `json:"key,omitempty" null:"value"`
	// How key and value are compared, such as Equals or AnyIn.
	// +optional
	Operator ConditionOperator `json:"operator,omitempty"`
	// The value to compare with: any JSON value. It may contain variables.
	// +optional
	RawValue *apiextensionsv1.JSON `json:"value,omitempty" null:"value"`
	// Message of the rule if this condition makes it fail.
	// +optional
	Message string `json:"message,omitempty"`
}

// ConditionOperator compares the key of a condition with its value.
//
// +kubebuilder:validation:Enum=Equals;NotEquals;AnyIn;AllIn;AnyNotIn;AllNotIn;GreaterThanOrEquals;GreaterThan;LessThanOrEquals;LessThan;DurationGreaterThanOrEquals;DurationGreaterThan;DurationLessThanOrEquals;DurationLessThan
type ConditionOperator string
