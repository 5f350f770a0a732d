package compiler_test

import (
	"fmt"
	"sync"
	"testing"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
)

// Policies that are compiled concurrently share their environments: one looks up types in an environment while another extends it.
func TestCompileAtOnce(t *testing.T) {
	expressions := []string{"Object{} != null", "JSONPatch{op: 'add'} != null", "type(object) == google.protobuf.Timestamp", "Object.spec{} != null", "Object.metadata{} != null"}
	var wait sync.WaitGroup
	for i := range 64 {
		wait.Go(func() {
			c := compiler.New(env.Declarations{Kind: env.Mutating})
			if i%2 == 0 {
				if err := c.Variable("a", "object.metadata.name"); err != nil {
					t.Error(err)
				}
			}
			for k := range expressions {
				if _, err := c.Compile(fmt.Sprintf("%s || %d == 1", expressions[(i+k)%len(expressions)], i), typecheck.Bool); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}
