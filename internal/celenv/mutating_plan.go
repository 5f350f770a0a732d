package celenv

import (
	"sync"

	"github.com/google/cel-go/cel"
)

// mutating returns the planner for the API server's mutating policies.
func mutating(in *cel.Env) (*planner, error) {
	mutatingOnce.Do(func() { mutatingPlanner, errMutating = newPlanner(in, Declarations{}) })
	return mutatingPlanner, errMutating
}

var (
	mutatingOnce    sync.Once
	mutatingPlanner *planner
	errMutating     error
)
