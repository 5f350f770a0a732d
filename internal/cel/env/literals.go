package env

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// homogeneous finds lists and maps in literals whose entries have different types, like the library's validator of that name. It also
// accepts an optional entry whose type is only known at run time, such as [?object.spec.x], for which the library's validator panics.
type homogeneous struct{}

// Name implements the library's interface. It is the name of the replaced validator, for which libraries exempt functions by name.
func (homogeneous) Name() string { return cel.ValidateHomogeneousAggregateLiterals().Name() }

// Validate implements the library's interface.
func (homogeneous) Validate(_ *cel.Env, config cel.ValidatorConfig, checked *ast.AST, issues *cel.Issues) {
	exempt, _ := config.GetOrDefault(cel.HomogeneousAggregateLiteralExemptFunctions, []string(nil)).([]string)
	root := ast.NavigateAST(checked)
	for _, list := range ast.MatchDescendants(root, ast.KindMatcher(ast.ListKind)) {
		if within(list, exempt) {
			continue
		}
		l, want := list.AsList(), sameType{checked, issues, nil}
		for i, e := range l.Elements() {
			if !want.accept(e, l.IsOptional(int32(i))) {
				break
			}
		}
	}
	for _, m := range ast.MatchDescendants(root, ast.KindMatcher(ast.MapKind)) {
		if within(m, exempt) {
			continue
		}
		keys, values := sameType{checked, issues, nil}, sameType{checked, issues, nil}
		for _, e := range m.AsMap().Entries() {
			entry := e.AsMapEntry()
			keys.accept(entry.Key(), false)
			values.accept(entry.Value(), entry.IsOptional())
		}
	}
}

// sameType checks the entries of one literal. The first entry determines the type.
type sameType struct {
	checked *ast.AST
	issues  *cel.Issues
	want    *cel.Type
}

// accept reports whether an entry has the type, and records a mistake if it does not.
func (s *sameType) accept(e ast.Expr, optional bool) bool {
	t := s.checked.GetType(e.ID())
	if t == nil {
		t = cel.DynType
	}
	if optional && len(t.Parameters()) > 0 {
		t = t.Parameters()[0]
	}
	if s.want == nil {
		s.want = t
		return true
	}
	if !s.want.IsEquivalentType(t) {
		s.issues.ReportErrorAtID(e.ID(), "expected type '%s' but found '%s'", cel.FormatCELType(s.want), cel.FormatCELType(t))
		return false
	}
	return true
}

// within reports whether e is part of a call of one of the functions.
func within(e ast.NavigableExpr, functions []string) bool {
	for e, found := e.Parent(); found; e, found = e.Parent() {
		if e.Kind() == ast.CallKind && slices.Contains(functions, e.AsCall().FunctionName()) {
			return true
		}
	}
	return false
}

// anyFormat takes the place of the validator of literal arguments of format(), which API servers have since Kubernetes 1.31: wrong ones are errors
// when they are evaluated. Of two validators with one name, the first one counts.
type anyFormat struct{}

// Name implements the library's interface.
func (anyFormat) Name() string { return "cel.validator.string_format" }

// Configure implements the library's interface: the arguments may have different types, as with the replaced validator.
func (anyFormat) Configure(config cel.MutableValidatorConfig) error {
	exempt, _ := config.GetOrDefault(cel.HomogeneousAggregateLiteralExemptFunctions, []string(nil)).([]string)
	return config.Set(cel.HomogeneousAggregateLiteralExemptFunctions, append(exempt, "format"))
}

// Validate implements the library's interface.
func (anyFormat) Validate(*cel.Env, cel.ValidatorConfig, *ast.AST, *cel.Issues) {}
