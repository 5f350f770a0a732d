package celenv

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// The library's type checker takes time that grows with the fourth power of how deeply types nest and with the square of
// their number, and cannot be stopped: 2 kB of maps in maps would cost seconds, a policy of them hours. Expressions that
// people write have five levels, and dozens of calls.
const (
	maxMakers      = 500 // calls, and what makes types, in one expression
	maxNesting     = 20  // of what makes types around one another
	maxTypeNesting = 8   // of the type of a variable; what is deeper can be anything
)

// parse is Env.Parse, and an error for what is too much to be checked.
func parse(env *cel.Env, expression string) (*cel.Ast, error) {
	parsed, issues := env.Parse(expression)
	if issues != nil && issues.Err() != nil {
		return nil, compileError(issues)
	}
	m := makers{}
	switch n := m.nesting(parsed.NativeRep().Expr()); {
	case n > maxNesting:
		return nil, fmt.Errorf("lists, maps and macros nest %d levels deep; %d are allowed", n, maxNesting)
	case m.count > maxMakers:
		return nil, fmt.Errorf("there are %d calls, lists, maps and macros; %d are allowed", m.count, maxMakers)
	}
	return parsed, nil
}

// makers counts the calls of an expression, and the parts that make a type of the types of their own parts.
type makers struct{ count int }

// nesting is the largest number of the latter around one another in e.
func (m *makers) nesting(e ast.Expr) (deepest int) {
	of := func(parts ...ast.Expr) {
		for _, p := range parts {
			deepest = max(deepest, m.nesting(p))
		}
	}
	switch e.Kind() {
	case ast.ListKind:
		of(e.AsList().Elements()...)
		return m.made(deepest)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			of(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
		return m.made(deepest)
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			of(field.AsStructField().Value())
		}
		return m.made(deepest)
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		of(c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result())
		return m.made(deepest)
	case ast.SelectKind:
		of(e.AsSelect().Operand())
	case ast.CallKind:
		c := e.AsCall()
		if c.IsMemberFunction() {
			of(c.Target())
		}
		of(c.Args()...)
		switch c.FunctionName() {
		case operators.LogicalAnd, operators.LogicalOr: // of no types but one
			return deepest
		case "of", "ofNonZeroValue", "type": // of optional, see the library's names
			return m.made(deepest)
		}
		m.count++
	}
	return deepest
}

func (m *makers) made(around int) int {
	m.count++
	return around + 1
}

// typeNesting is how many types t has around one another.
func typeNesting(t *cel.Type) int {
	deepest := 0
	for _, p := range t.Parameters() {
		deepest = max(deepest, typeNesting(p))
	}
	return deepest + 1
}
