package run

import (
	"sync"

	"github.com/google/cel-go/cel"

	"ephor.invalid/ephor/internal/cel/env"
)

// Mutating returns the planner for the API server's mutating policies.
func Mutating(in *cel.Env) (*Planner, error) {
	mutatingOnce.Do(func() { mutatingPlanner, errMutating = newPlanner(in, env.Declarations{}) })
	return mutatingPlanner, errMutating
}

var (
	mutatingOnce    sync.Once
	mutatingPlanner *Planner
	errMutating     error
)
