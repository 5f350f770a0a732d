package celenv

import (
	"sync"

	"github.com/google/cel-go/cel"
)

// environmentsInUse guards the environments, which all policies share. The type checker stores the types that it looked up in the scope of
// its environment, and an extension copies that scope: without the lock, two policies that are compiled at once end the process.
var environmentsInUse sync.Mutex

// check is env.Check for environments that goroutines share.
func check(env *cel.Env, parsed *cel.Ast) (*cel.Ast, *cel.Issues) {
	environmentsInUse.Lock()
	defer environmentsInUse.Unlock()
	return env.Check(parsed)
}

// extended is env.Extend for environments that goroutines share.
func extended(env *cel.Env, options ...cel.EnvOption) (*cel.Env, error) {
	environmentsInUse.Lock()
	defer environmentsInUse.Unlock()
	return env.Extend(options...)
}
