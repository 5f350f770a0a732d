package celenv

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/lazy"
)

// Expression is a compiled expression. It is immutable and safe for concurrent use.
type Expression struct {
	text string
	*planned
}

// Variables are the named expressions of a rule.
type Variables struct {
	declared  Declarations
	mapType   *apiservercel.DeclType
	list      []variable
	index     map[string]int
	signature [sha256.Size]byte // a digest of the names and expressions
}

// NewVariables returns no variables, for a rule with these Declarations.
func NewVariables(d Declarations) *Variables { return &Variables{declared: d} }

// Declare sets the type of the variable `variables`, to which the type checker adds a field for each variable.
func (v *Variables) Declare(t *apiservercel.DeclType) { v.mapType = t }

// Add adds a variable; err is its mistake, if it has one.
func (v *Variables) Add(name, text string, x *Expression, err error) {
	v.sign(name, text)
	if v.index == nil {
		v.index = map[string]int{}
	}
	v.index[name] = len(v.list)
	v.list = append(v.list, variable{name, x, err})
}

// Compile returns the expression with the plan of its checked form. ofObject reports whether its value depends only on the object. alone:
// the plan is not shared with other rules. An error concerns a constant in the expression.
func (v *Variables) Compile(p *planner, in *cel.Env, text string, checked *ast.AST, ofObject func(*ast.AST) bool, alone bool) (*Expression, error) {
	plan, err := v.plan(p, in, text, checked, ofObject, alone)
	if err != nil {
		return nil, err
	}
	return &Expression{text, plan}, nil
}

type variable struct {
	name       string
	expression *Expression
	err        error
}

// sign adds a variable to the signature.
func (v *Variables) sign(name, expression string) {
	h := sha256.New()
	h.Write(v.signature[:])
	for _, s := range []string{name, expression} {
		h.Write(binary.AppendUvarint(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	h.Sum(v.signature[:0])
}

// lazy returns the value of `variables` as a whole.
func (v *Variables) lazy(e *Evaluation) any {
	if v.mapType == nil {
		return types.NullValue
	}
	m := lazy.NewMapValue(v.mapType)
	for i := range v.list {
		m.Append(v.list[i].name, func(*lazy.MapValue) ref.Val { return e.variable(i) })
	}
	return m
}
