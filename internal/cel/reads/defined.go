package reads

import (
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/compilecost"
)

// form is the form of a value, as far as Defined knows it.
type form uint8

const (
	formUnknown       form = iota // nothing is known; equality accepts it
	formBool                      // true or false
	formText                      // a text
	formObject                    // a map with known fields (forms)
	formTexts                     // a map of texts
	formOptional                  // an optional text
	formOptionalTexts             // an optional map of texts
)

// forms are the forms of the fields that the API server defines for all kinds. Whether a field is present is known separately.
var forms = map[string]form{
	"object": formObject, "object.apiVersion": formText, "object.kind": formText, "object.metadata": formObject,
	"object.metadata.name": formText, "object.metadata.generateName": formText, "object.metadata.namespace": formText, "object.metadata.uid": formText,
	"object.metadata.labels": formTexts, "object.metadata.annotations": formTexts,
	"request": formObject, "request.operation": formText, "request.name": formText, "request.namespace": formText, "request.subResource": formText,
	"request.kind": formObject, "request.kind.group": formText, "request.kind.version": formText, "request.kind.kind": formText,
	"request.resource": formObject, "request.resource.group": formText, "request.resource.version": formText, "request.resource.resource": formText,
	"request.userInfo": formObject, "request.userInfo.username": formText,
}

// formOf returns the form of a path. oldObject has the fields of object.
func formOf(path string) form {
	if f := forms[path]; f != formUnknown {
		return f
	}
	if strings.HasSuffix(path, `"]`) { // a key of a map of texts
		return formText
	}
	if rest, old := strings.CutPrefix(path, "oldObject"); old {
		return forms["object"+rest]
	}
	return formUnknown
}

// Defined reports whether a condition of the API server is true or false in every evaluation in which the paths, such as
// object.metadata.name, are present. It knows the metadata of objects and the fields of requests; for any other expression it returns false,
// since a field can be missing or have another type.
func Defined(condition string, present ...string) bool {
	parsed, err := typecheck.Parse(env.Declarations{Kind: env.Exempting}.Env(), condition, new(compilecost.Allowance))
	if err != nil {
		return false
	}
	known := facts{}
	for _, p := range present {
		known[p] = true
	}
	f, ok := known.value(parsed.NativeRep().Expr())
	return ok && f == formBool
}

// facts are paths that are present.
type facts map[string]bool

func (k facts) and(more facts) facts {
	if len(more) == 0 {
		return k
	}
	out := maps.Clone(k)
	if out == nil {
		return more
	}
	maps.Copy(out, more)
	return out
}

// value returns the form of an expression; ok is false if it may have no value.
func (k facts) value(e ast.Expr) (f form, ok bool) {
	switch e.Kind() {
	case ast.LiteralKind:
		switch e.AsLiteral().Type() {
		case types.BoolType:
			return formBool, true
		case types.StringType:
			return formText, true
		}
		return formUnknown, true
	case ast.ListKind:
		for _, x := range e.AsList().Elements() {
			if _, ok := k.value(x); !ok {
				return formUnknown, false
			}
		}
		return formUnknown, true
	case ast.SelectKind:
		if s := e.AsSelect(); s.IsTestOnly() {
			of, ok := k.value(s.Operand())
			return formBool, ok && (of == formObject || of == formTexts)
		}
		path := pathOf(e)
		return formOf(path), path != "" && k[path]
	case ast.IdentKind:
		path := pathOf(e)
		return formOf(path), k[path]
	case ast.MapKind:
		return formTexts, e.AsMap().Size() == 0
	case ast.CallKind:
		return k.call(e.AsCall())
	}
	return formUnknown, false
}

// pathOf returns the path of a field of a document, such as object.metadata.name or object.metadata.labels["a"]; empty for other expressions.
func pathOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return strings.TrimPrefix(e.AsIdent(), ".")
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			return fieldPath(pathOf(s.Operand()), s.FieldName())
		}
	case ast.CallKind:
		return pathOfCall(e.AsCall())
	}
	return ""
}

func pathOfCall(c ast.CallExpr) string {
	if c.FunctionName() == operators.Index {
		if key, ok := literalText(c.Args()[1]); ok {
			return fieldPath(pathOf(c.Args()[0]), key)
		}
	}
	return ""
}

// fieldPath returns the path of a field. A field of a map of texts is written as a key, so that labels.a and labels["a"] are the same.
func fieldPath(path, name string) string {
	switch {
	case path == "":
		return ""
	case formOf(path) == formTexts:
		return path + "[" + strconv.Quote(name) + "]"
	}
	return path + "." + name
}

// call returns the form of a call; ok is false if it may have no value.
func (k facts) call(c ast.CallExpr) (f form, ok bool) {
	args := c.Args()
	if c.IsMemberFunction() {
		return k.member(c.FunctionName(), c.Target(), args)
	}
	switch name := c.FunctionName(); name {
	case operators.LogicalAnd:
		return formBool, k.both(args[0], args[1], facts.whenTrue)
	case operators.LogicalOr:
		return formBool, k.both(args[0], args[1], facts.whenFalse)
	case operators.LogicalNot:
		return formBool, k.is(args[0], formBool)
	case operators.Equals, operators.NotEquals:
		if documentAndNull(args[0], args[1]) != "" {
			return formBool, true
		}
		_, left := k.value(args[0])
		_, right := k.value(args[1])
		return formBool, left && right
	case operators.In:
		_, left := k.value(args[0])
		of, right := k.value(args[1])
		return formBool, left && right && (of == formTexts || args[1].Kind() == ast.ListKind)
	case operators.Conditional:
		then, first := k.and(k.whenTrue(args[0])).value(args[1])
		other, second := k.and(k.whenFalse(args[0])).value(args[2])
		if then != other {
			then = formUnknown
		}
		return then, k.is(args[0], formBool) && first && second
	case operators.Index:
		if of, ok := k.value(args[0]); ok && of == formOptionalTexts {
			_, literal := literalText(args[1])
			return formOptional, literal
		}
		path := pathOfCall(c)
		return formOf(path), path != "" && k[path]
	case operators.OptSelect, operators.OptIndex:
		key, literal := literalText(args[1])
		of, ok := k.value(args[0])
		switch {
		case !ok || !literal:
		case of == formTexts, of == formOptionalTexts:
			return formOptional, true
		case of == formObject:
			switch formOf(fieldPath(pathOf(args[0]), key)) {
			case formText:
				return formOptional, true
			case formTexts:
				return formOptionalTexts, true
			}
		}
	}
	return formUnknown, false
}

// member returns the form of a call of a member function.
func (k facts) member(name string, target ast.Expr, args []ast.Expr) (f form, ok bool) {
	of, ok := k.value(target)
	switch {
	case !ok:
	case name == "hasValue" && len(args) == 0:
		return formBool, of == formOptional || of == formOptionalTexts
	case len(args) != 1:
	case name == env.OrValue && of == formOptional && k.is(args[0], formText):
		return formText, true
	case name == env.OrValue && of == formOptionalTexts && k.is(args[0], formTexts):
		return formTexts, true
	case name == "startsWith", name == "endsWith", name == "contains":
		return formBool, of == formText && k.is(args[0], formText)
	case name == "matches":
		pattern, literal := literalText(args[0])
		_, err := regexp.Compile(pattern)
		return formBool, of == formText && literal && err == nil
	}
	return formUnknown, false
}

func (k facts) is(e ast.Expr, want form) bool {
	f, ok := k.value(e)
	return ok && f == want
}

// both reports whether a logical operator on two conditions has a value. One operand need only have a value where the other one does not
// decide; learned returns what is known there.
func (k facts) both(a, b ast.Expr, learned func(facts, ast.Expr) facts) bool {
	return k.is(a, formBool) && k.and(learned(k, a)).is(b, formBool) || k.is(b, formBool) && k.and(learned(k, b)).is(a, formBool)
}

// whenTrue returns paths that are present if the condition is true.
func (k facts) whenTrue(e ast.Expr) facts {
	if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
		s := e.AsSelect()
		if path := fieldPath(pathOf(s.Operand()), s.FieldName()); path != "" {
			return facts{path: true}
		}
	}
	if e.Kind() != ast.CallKind {
		return nil
	}
	c := e.AsCall()
	switch args := c.Args(); c.FunctionName() {
	case operators.LogicalAnd:
		return k.whenTrue(args[0]).and(k.whenTrue(args[1]))
	case operators.LogicalNot:
		return k.whenFalse(args[0])
	case operators.NotEquals:
		if name := documentAndNull(args[0], args[1]); name != "" {
			return facts{name: true, name + ".metadata": true, name + ".apiVersion": true, name + ".kind": true}
		}
	case operators.In:
		if key, ok := literalText(args[0]); ok && formOf(pathOf(args[1])) == formTexts {
			return facts{fieldPath(pathOf(args[1]), key): true}
		}
	}
	return nil
}

// whenFalse returns paths that are present if the condition is false.
func (k facts) whenFalse(e ast.Expr) facts {
	if e.Kind() != ast.CallKind {
		return nil
	}
	c := e.AsCall()
	switch args := c.Args(); c.FunctionName() {
	case operators.LogicalOr:
		return k.whenFalse(args[0]).and(k.whenFalse(args[1]))
	case operators.LogicalNot:
		return k.whenTrue(args[0])
	case operators.Equals:
		if name := documentAndNull(args[0], args[1]); name != "" {
			return facts{name: true, name + ".metadata": true, name + ".apiVersion": true, name + ".kind": true}
		}
	}
	return nil
}

// documentAndNull returns the name of the object that a condition compares with null; empty for other comparisons.
func documentAndNull(a, b ast.Expr) string {
	for _, x := range [][2]ast.Expr{{a, b}, {b, a}} {
		if name := pathOf(x[0]); (name == "object" || name == "oldObject") && isNull(x[1]) {
			return name
		}
	}
	return ""
}
