package run

import (
	"crypto/sha256"
	"sync"
	"weak"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/interpreter"

	"ephor.invalid/ephor/internal/cel/price"
)

// Policies have expressions in common: those of generated rules, and those of policies that were copied from each other. Equal
// expressions with the same variables in the same environment share one plan while any of them is in use.

// planned is the plan of an expression. It is immutable.
type planned struct {
	root  interpreter.Interpretable
	nodes int64 // of the expression
	// ofObject: the value depends only on the object.
	ofObject bool
}

// planKey holds everything on which a plan depends.
type planKey struct {
	planner    *Planner
	variables  [sha256.Size]byte // a digest of the names and expressions of the preceding variables
	expression string
}

var plans = planTable{of: map[planKey]weak.Pointer[planned]{}}

// planTable holds weak pointers to plans. It removes the entries of freed plans when the table has doubled.
type planTable struct {
	mu    sync.Mutex
	of    map[planKey]weak.Pointer[planned]
	limit int
}

const minPlans = 256

func (t *planTable) get(key planKey) *planned {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[key].Value()
}

// put adds a plan, unless an equal one was added in the meantime. It returns the plan to use.
func (t *planTable) put(key planKey, p *planned) *planned {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.of[key].Value(); known != nil {
		return known
	}
	if len(t.of) >= max(t.limit, minPlans) {
		for k, v := range t.of {
			if v.Value() == nil {
				delete(t.of, k)
			}
		}
		t.limit = 2 * len(t.of)
	}
	t.of[key] = weak.Make(p)
	return p
}

// plan returns the plan of a checked expression. It uses a shared plan if there is one, unless the plan belongs to the environment of one
// Compiler alone.
func (v *Variables) plan(p *Planner, in *cel.Env, expression string, checked *ast.AST, ofObject func(*ast.AST) bool, alone bool) (*planned, error) {
	key := planKey{p, v.signature, expression}
	if !alone {
		if known := plans.get(key); known != nil {
			return known, nil
		}
	}
	root, err := p.plan(in, checked, v.index, nil)
	if err != nil {
		return nil, err
	}
	out := &planned{root, int64(price.NodesOf(checked.Expr())), ofObject(checked)}
	if alone {
		return out, nil
	}
	return plans.put(key, out), nil
}
