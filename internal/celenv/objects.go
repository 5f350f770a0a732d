package celenv

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// NamedObject is a kind of objects that an expression names in literals: a kind of an object that it writes, with apiVersion, kind and
// metadata, or a kind that it reads with a function of `resource`.
type NamedObject struct {
	APIVersion string
	Name       string // the kind, or the plural of the resource for reads
	Verb       string // get or list for reads; empty otherwise
}

// objects collects the objects that the expressions of a generating policy name.
type objects struct{ list []NamedObject }

// find finds the objects that a checked expression names.
func (o *objects) find(d Declarations, checked *cel.Ast) {
	if d.Kind != Generating || checked == nil {
		return
	}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if found, ok := readBy(e); ok {
			o.add(found)
		}
	}))
	o.written(checked.NativeRep().Expr())
}

func (o *objects) add(found NamedObject) {
	if !slices.Contains(o.list, found) {
		o.list = append(o.list, found)
	}
}

// written finds objects that are written as literals. A map inside another one is a part of it, such as an owner reference.
func (o *objects) written(e ast.Expr) {
	switch e.Kind() {
	case ast.MapKind:
		var found NamedObject
		metadata := false
		for _, entry := range e.AsMap().Entries() {
			key, _ := writtenText(entry.AsMapEntry().Key())
			text, _ := writtenText(entry.AsMapEntry().Value())
			switch key {
			case "apiVersion":
				found.APIVersion = text
			case "kind":
				found.Name = text
			case "metadata":
				metadata = true
			}
		}
		if metadata && found.APIVersion != "" && found.Name != "" {
			o.add(found)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			o.written(element)
		}
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			o.written(call.Target())
		}
		for _, arg := range call.Args() {
			o.written(arg)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		for _, part := range []ast.Expr{c.IterRange(), c.LoopStep(), c.Result()} {
			o.written(part)
		}
	}
}

// readBy returns the kind that a call of resource.get or resource.list reads.
func readBy(e ast.Expr) (NamedObject, bool) {
	if e.Kind() != ast.CallKind {
		return NamedObject{}, false
	}
	call := e.AsCall()
	library, verb, _ := strings.Cut(strings.ToLower(call.FunctionName()), ".")
	if library != libResource.Name || verb != "get" && verb != "list" || len(call.Args()) < 2 {
		return NamedObject{}, false
	}
	apiVersion, ok := writtenText(call.Args()[0])
	plural, also := writtenText(call.Args()[1])
	return NamedObject{apiVersion, plural, verb}, ok && also && apiVersion != "" && plural != ""
}

// writtenText returns the text of a literal, which may be inside dyn().
func writtenText(e ast.Expr) (string, bool) {
	for e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "dyn" && len(e.AsCall().Args()) == 1 {
		e = e.AsCall().Args()[0]
	}
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}
