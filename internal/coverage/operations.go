package coverage

import (
	"slices"

	"ephor.invalid/ephor/internal/policy"
)

// Operations is a set of operations.
type Operations map[policy.Operation]bool

// all are the operations of the API server.
var all = []policy.Operation{policy.Connect, policy.Create, policy.Delete, policy.Update}

// All returns the operations of the API server. They are the default for validating webhooks.
func All() Operations { return OperationsOf(all...) }

// OperationsOf returns the set of these operations.
func OperationsOf(list ...policy.Operation) Operations {
	out := make(Operations, len(list))
	for _, op := range list {
		out[op] = true
	}
	return out
}

// OfTarget returns the operations that a selector names, or the defaults if it names none. The API server rejects webhook rules with other
// operations than its own, so they are left out.
func OfTarget(t policy.Target, defaults Operations) Operations {
	if len(t.Operations) == 0 {
		return defaults
	}
	out := Operations{}
	for _, op := range t.Operations {
		if Known(op) {
			out[op] = true
		}
	}
	return out
}

// Known reports whether requests can have the operation.
func Known(op policy.Operation) bool { return slices.Contains(all, op) }

// Sorted returns the names of the operations in order.
func (o Operations) Sorted() []string {
	out := make([]string, 0, len(o))
	for op := range o {
		out = append(out, string(op))
	}
	slices.Sort(out)
	return out
}

// Within reports whether all operations are in the list.
func (o Operations) Within(list []string) bool {
	for op := range o {
		if !slices.Contains(list, string(op)) {
			return false
		}
	}
	return true
}

// Meets reports whether the sets have an operation in common.
func (o Operations) Meets(other Operations) bool {
	for op := range o {
		if other[op] {
			return true
		}
	}
	return false
}
