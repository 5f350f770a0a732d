package run

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// node identifies a part of an expression. The library numbers the parts of each expression from 1, and an argument may be a
// variable, which is a separate expression.
type node struct {
	of *ast.AST
	id int64
}

// fieldOf is a field of a struct. Its value is kept until the struct is complete.
type fieldOf struct {
	parent node
	index  int
}

// fields returns the fields of structs by the IDs of their nodes.
func fields(checked *ast.AST) map[int64]fieldOf {
	var out map[int64]fieldOf
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.StructKind {
			return
		}
		if out == nil {
			out = map[int64]fieldOf{}
		}
		for i, f := range e.AsStruct().Fields() {
			out[f.AsStructField().Value().ID()] = fieldOf{node{checked, e.ID()}, i}
		}
	}))
	return out
}

// remembering returns a decorator that keeps the fields of structs under construction.
func (in *planning) remembering() interpreter.InterpretableDecorator {
	of := fields(in.checked)
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		f, ok := of[i.ID()]
		attribute, path := i.(interpreter.InterpretableAttribute)
		switch {
		case ok && path: // qualifiers may be added to it
			return &rememberedPath{attribute, f}, nil
		case ok:
			return &remembered{i, f}, nil
		}
		return i, nil
	}
}

// remembered evaluates a field of a struct and keeps its value.
type remembered struct {
	interpreter.Interpretable
	fieldOf
}

// Exec implements the library's interface.
func (r *remembered) Exec(frame *interpreter.ExecutionFrame) ref.Val { return r.Eval(frame) }

// Eval implements the library's interface.
func (r *remembered) Eval(vars interpreter.Activation) ref.Val {
	return r.keep(vars, r.Interpretable.Eval(vars))
}

// rememberedPath is remembered for a path.
type rememberedPath struct {
	interpreter.InterpretableAttribute
	fieldOf
}

// Exec implements the library's interface.
func (r *rememberedPath) Exec(frame *interpreter.ExecutionFrame) ref.Val { return r.Eval(frame) }

// Eval implements the library's interface.
func (r *rememberedPath) Eval(vars interpreter.Activation) ref.Val {
	return r.keep(vars, r.InterpretableAttribute.Eval(vars))
}

// keep keeps the value of the field until its struct is complete.
func (f fieldOf) keep(vars interpreter.Activation, v ref.Val) ref.Val {
	e := evaluationOf(vars)
	if e == nil {
		return v
	}
	if e.arguments == nil {
		e.arguments = map[node][]ref.Val{}
	}
	known := e.arguments[f.parent]
	e.arguments[f.parent] = append(known[:min(f.index, len(known))], v)
	return v
}

// payComparison charges for comparing a value. It returns an error value if the budget is used up.
func payComparison(vars interpreter.Activation, v ref.Val) ref.Val {
	switch v.(type) {
	case types.Bool, types.Int, types.Double, types.Uint, types.Null, types.String, types.Timestamp, types.Duration:
		return nil
	}
	e := evaluationOf(vars)
	if e == nil {
		return nil
	}
	return e.PayComparison(&e.sizes, v)
}

// evaluationOf returns the evaluation, which may be hidden by frames and by the scopes of comprehensions.
func evaluationOf(vars interpreter.Activation) *Evaluation {
	for vars != nil {
		switch x := vars.(type) {
		case *Evaluation:
			return x
		case *interpreter.ExecutionFrame: // its parent is that of the scope in it
			vars = x.Unwrap()
		default:
			vars = vars.Parent()
		}
	}
	return nil
}
