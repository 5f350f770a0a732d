package celenv

import (
	"sync"

	"github.com/google/cel-go/cel"
)

// environmentsInUse guards the environments, which all policies share. The type checker stores types that it looked up in the scope of its
// environment, and extending an environment copies that scope. Without the lock, compiling two policies concurrently would crash the
// process.
var environmentsInUse sync.Mutex

// check calls env.Check on environments that goroutines share.
func check(env *cel.Env, parsed *cel.Ast) (*cel.Ast, *cel.Issues) {
	environmentsInUse.Lock()
	defer environmentsInUse.Unlock()
	return env.Check(parsed)
}

// extended calls env.Extend on environments that goroutines share.
func extended(env *cel.Env, options ...cel.EnvOption) (*cel.Env, error) {
	environmentsInUse.Lock()
	defer environmentsInUse.Unlock()
	return env.Extend(options...)
}
