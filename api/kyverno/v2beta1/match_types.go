package v2beta1

import (
	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// MatchResources selects requests by any or by all of its filters.
//
// +ephor:notTogether=any;all
type MatchResources struct {
	// At least one of the filters must match.
	// +optional
	Any kyvernov1.ResourceFilters `json:"any,omitempty"`
	// Every filter must match.
	// +optional
	All kyvernov1.ResourceFilters `json:"all,omitempty"`
}
