package celenv

import (
	"testing"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// rule compiles expressions as package compiler does, which the tests of this package cannot import.
type rule struct {
	*Variables
	t        *testing.T
	declared Declarations
	in       *cel.Env
	fields   *apiservercel.DeclType
}

func newRule(t *testing.T, d Declarations) *rule {
	return &rule{Variables: NewVariables(d), t: t, declared: d, in: d.env()}
}

func (r *rule) variable(name, text string) {
	r.t.Helper()
	if r.fields == nil {
		r.fields = apiservercel.NewObjectType(variablesType, map[string]*apiservercel.DeclField{})
		r.Declare(r.fields)
		var err error
		if r.in, err = withVariables(r.in, r.fields); err != nil {
			r.t.Fatal(err)
		}
	}
	x, checked := r.expression(text)
	r.fields.Fields[name] = apiservercel.NewDeclField(name, declType(checked.OutputType()), true, nil, nil)
	r.Add(name, text, x, nil)
}

func (r *rule) expression(text string) (*Expression, *cel.Ast) {
	r.t.Helper()
	checked, err := typed(r.in, text, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	x, err := r.Compile(plannerOf(r.declared), r.in, text, checked.NativeRep(), ofObject, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return x, checked
}
