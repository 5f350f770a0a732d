package env

import (
	"sync"

	"github.com/google/cel-go/cel"
)

// environmentsInUse guards the environments, which all policies share. The type checker stores types that it looked up in the scope of its
// environment, and extending an environment copies that scope. Without the lock, compiling two policies concurrently would crash the
// process.
var environmentsInUse sync.Mutex

// Check calls env.Check on environments that goroutines share.
func Check(env *cel.Env, parsed *cel.Ast) (*cel.Ast, *cel.Issues) {
	environmentsInUse.Lock()
	defer environmentsInUse.Unlock()
	return env.Check(parsed)
}

// Extended calls env.Extend on environments that goroutines share.
func Extended(env *cel.Env, options ...cel.EnvOption) (*cel.Env, error) {
	environmentsInUse.Lock()
	defer environmentsInUse.Unlock()
	return env.Extend(options...)
}
