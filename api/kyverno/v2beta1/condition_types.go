package v2beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// AnyAllConditions holds when at least one condition of any and every condition of all hold; an empty list holds.
type AnyAllConditions struct {
	// At least one of these holds.
	// +optional
	AnyConditions []Condition `json:"any,omitempty"`
	// Every one of these holds.
	// +optional
	AllConditions []Condition `json:"all,omitempty"`
}

// Condition compares a key with a value.
type Condition struct {
	// Any JSON value, most often an expression.
	// +optional
	RawKey *apiextensionsv1.JSON `json:"key,omitempty" null:"value"`
	// How key and value are compared.
	// +optional
	Operator ConditionOperator `json:"operator,omitempty"`
	// Any JSON value; it may hold variables.
	// +optional
	RawValue *apiextensionsv1.JSON `json:"value,omitempty" null:"value"`
	// Shown when the condition is why a rule failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// ConditionOperator compares the key of a condition with its value.
//
// +kubebuilder:validation:Enum=Equals;NotEquals;AnyIn;AllIn;AnyNotIn;AllNotIn;GreaterThanOrEquals;GreaterThan;LessThanOrEquals;LessThan;DurationGreaterThanOrEquals;DurationGreaterThan;DurationLessThanOrEquals;DurationLessThan
type ConditionOperator string
