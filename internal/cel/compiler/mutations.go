package compiler

import (
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
)

// Mutations allows the expressions that are compiled from now on to return mutations: values of type Object, and lists of JSONPatch.
func (c *Compiler) Mutations() error {
	if c.declared.Kind != env.Native {
		return nil // mutations are already allowed, or never allowed
	}
	extended, err := env.WithMutations(c.env)
	if err != nil {
		return err
	}
	c.env = extended
	c.planner, err = run.Mutating(c.env)
	return err
}
