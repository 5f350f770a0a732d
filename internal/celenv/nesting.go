package celenv

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"ephor.invalid/ephor/internal/compilecost"
)

// The time of the library's type checker grows with the fourth power of the nesting depth of types and with the square
// of their number, and it cannot be stopped: 2 kB of nested maps would take seconds, and a policy full of them hours.
// Expressions that people write have five levels, and dozens of calls.
const (
	maxMakers      = 500 // calls, and parts that create types, in one expression
	maxNesting     = 20  // nesting depth of parts that create types
	maxTypeNesting = 8   // nesting depth of the type of a variable; a deeper type becomes dyn
)

// parse calls Env.Parse, and returns an error if the expression is too large for the type checker. It charges the allowance for what checking
// and planning the expression will cost.
func parse(in *cel.Env, expression string, a *compilecost.Allowance) (*cel.Ast, error) {
	parsed, issues := in.Parse(expression)
	if issues != nil && issues.Err() != nil {
		return nil, newCompileError(issues)
	}
	m := makers{}
	switch n := m.nesting(parsed.NativeRep().Expr()); {
	case n > maxNesting:
		return nil, fmt.Errorf("lists, maps and macros nest %d levels deep; %d are allowed", n, maxNesting)
	case m.count > maxMakers:
		return nil, fmt.Errorf("there are %d calls, lists, maps and macros; %d are allowed", m.count, maxMakers)
	}
	m.Add(compilecost.CELTypes(m.count))
	if err := a.Charge(m.Cost); err != nil {
		return nil, err
	}
	return parsed, nil
}

// typed parses an expression and checks its types. It charges the allowance, which may be nil. The error is a *CompileError, a
// *compilecost.Error, or says that the expression is too large.
func typed(in *cel.Env, expression string, a *compilecost.Allowance) (*cel.Ast, error) {
	parsed, err := parse(in, expression, a)
	if err != nil {
		return nil, err
	}
	checked, issues := check(in, parsed)
	if issues != nil && issues.Err() != nil {
		return nil, newCompileError(issues)
	}
	return checked, nil
}

// makers counts the calls of an expression, and the parts that create a type from the types of their own parts.
type makers struct {
	count            int
	compilecost.Cost // of the regular expressions that are literals
}

// nesting returns the maximum nesting depth of the parts of e that create types.
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
		case operators.LogicalAnd, operators.LogicalOr: // their type is always bool
			return deepest
		case "of", "ofNonZeroValue", "type": // functions of optional, by the library's names
			return m.made(deepest)
		}
		m.count++
		if slices.Contains(searches, c.FunctionName()) {
			for _, arg := range c.Args() {
				m.pattern(arg)
			}
		}
	}
	return deepest
}

// searches are the functions with a regular expression as an argument.
var searches = slices.Sorted(maps.Keys(searching))

// pattern adds the cost of a regular expression that is a literal. The library compiles it twice: to check it, and for the plan.
func (m *makers) pattern(e ast.Expr) {
	if e.Kind() != ast.LiteralKind {
		return
	}
	text, ok := e.AsLiteral().(types.String)
	if !ok {
		return
	}
	if size, err := compilecost.Regex(string(text)); err == nil { // otherwise the checker reports the mistake
		m.Add(compilecost.Cost{Time: 2 * size.Time, Peak: 2 * size.Peak, Held: size.Held})
	}
}

func (m *makers) made(around int) int {
	m.count++
	return around + 1
}

// typeNesting returns the nesting depth of the type t.
func typeNesting(t *cel.Type) int {
	deepest := 0
	for _, p := range t.Parameters() {
		deepest = max(deepest, typeNesting(p))
	}
	return deepest + 1
}
