package celenv

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"ephor.invalid/ephor/internal/value"
)

// documents are the variables whose parts are tracked through expressions.
var documents = []string{
	plugincel.ObjectVarName, plugincel.OldObjectVarName, plugincel.RequestVarName, plugincel.NamespaceVarName,
	plugincel.ParamsVarName, plugincel.AuthorizerVarName, plugincel.RequestResourceAuthorizerVarName, varTrigger,
}

// reads determines which parts of the documents the expressions of a Compiler read.
type reads struct {
	doc       value.Fields // the members are the documents
	variables map[string]*value.Part
	called    map[string]bool // the names of the called libraries
	lost      bool            // an expression could not be tracked, so it may read anything
}

// Fields returns what the expressions read. The members of the result are the documents that are read.
func (r *reads) Fields() *value.Fields {
	out := &value.Fields{}
	out.Merge(&r.doc)
	if r.lost {
		for _, name := range documents {
			out.Member(name).ReadAll()
		}
	}
	return out
}

// Calls reports whether any expression calls a function of the library, such as http.
func (r *reads) Calls(library string) bool { return r.called[library] }

// Asks reports whether any expression queries the World, such as resources, services or registries.
func (r *reads) Asks() bool {
	for name := range r.called {
		if libraryNamed(name).Asks {
			return true
		}
	}
	return false
}

// variable records the parts that make up a variable, for the expressions that use it.
func (r *reads) variable(name string, checked *cel.Ast) {
	if r.variables == nil {
		r.variables = map[string]*value.Part{}
	}
	r.variables[name] = &value.Part{}
	if checked != nil { // otherwise it has a mistake
		r.variables[name] = r.follow(checked)
	}
}

// expression records the parts that an expression reads.
func (r *reads) expression(checked *cel.Ast) { r.follow(checked).Read() }

func (r *reads) follow(checked *cel.Ast) *value.Part {
	f := &follower{reads: r, checked: checked.NativeRep()}
	out := f.walk(f.checked.Expr(), nil)
	if f.Lost() {
		r.lost = true
		return &value.Part{}
	}
	return out
}

// follower tracks the parts of the documents through one expression.
type follower struct {
	value.Flow
	*reads
	checked *ast.AST
}

// local is a variable of a macro.
type local struct {
	name  string
	part  *value.Part
	outer *local
}

func (l *local) find(name string) *value.Part {
	for ; l != nil; l = l.outer {
		if l.name == name {
			return l.part
		}
	}
	return nil
}

// walk returns the parts that make up the value of e. It records the parts that the evaluation reads on the way.
func (f *follower) walk(e ast.Expr, locals *local) *value.Part {
	if f.Lost() {
		return &value.Part{}
	}
	switch e.Kind() {
	case ast.IdentKind:
		return f.name(e.AsIdent(), locals)
	case ast.SelectKind:
		return f.selected(e, locals)
	case ast.ListKind:
		elements := make([]*value.Part, e.AsList().Size())
		for i, x := range e.AsList().Elements() {
			elements[i] = f.walk(x, locals)
		}
		return f.List(elements...)
	case ast.MapKind:
		return f.madeMap(e.AsMap(), locals)
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			f.walk(field.AsStructField().Value(), locals).Read()
		}
	case ast.ComprehensionKind:
		return f.loop(e.AsComprehension(), locals)
	case ast.CallKind:
		return f.call(e.AsCall(), locals)
	}
	return &value.Part{}
}

func (f *follower) name(name string, locals *local) *value.Part {
	if p := locals.find(name); p != nil {
		return p
	}
	switch name = strings.TrimPrefix(name, "."); {
	case name == "variables":
		for _, p := range f.variables {
			p.Read()
		}
	case slices.Contains(documents, name):
		return value.PartOf(f.doc.Member(name))
	}
	return &value.Part{}
}

func (f *follower) selected(e ast.Expr, locals *local) *value.Part {
	if known := f.checked.ReferenceMap()[e.ID()]; known != nil && known.Name != "" {
		return f.name(known.Name, nil) // authorizer.requestResource is a single name
	}
	s := e.AsSelect()
	if of := s.Operand(); of.Kind() == ast.IdentKind && of.AsIdent() == "variables" && locals.find("variables") == nil {
		return f.variables[s.FieldName()]
	}
	p := f.Member(f.walk(s.Operand(), locals), s.FieldName())
	if s.IsTestOnly() {
		return &value.Part{} // has() only tests whether the member exists
	}
	return p
}

func (f *follower) madeMap(m ast.MapExpr, locals *local) *value.Part {
	members := map[string]*value.Part{}
	for _, entry := range m.Entries() {
		key, of := entry.AsMapEntry().Key(), f.walk(entry.AsMapEntry().Value(), locals)
		name, ok := literalText(key)
		if !ok {
			f.walk(key, locals).Read()
			of.Read()
			continue
		}
		members[name] = f.Join(members[name], of)
	}
	return f.Object(members)
}

// loop tracks a macro. Its variable is each item of a list, or each name of a map. Which of the two it is depends on the
// object.
func (f *follower) loop(c ast.ComprehensionExpr, locals *local) *value.Part {
	over := f.walk(c.IterRange(), locals)
	items := &value.Part{}
	if c.HasIterVar2() {
		over.Read()
	} else {
		over.ReadNames()
		items = f.Items(over)
	}
	made := f.walk(c.AccuInit(), locals)
	inner := &local{c.IterVar(), items, locals}
	if c.HasIterVar2() {
		inner = &local{c.IterVar2(), items, inner}
	}
	inner = &local{c.AccuVar(), made, inner}
	f.walk(c.LoopCondition(), inner).Read()
	made = f.Join(made, f.walk(c.LoopStep(), inner))
	return f.walk(c.Result(), &local{c.AccuVar(), made, locals})
}

// Functions that return their arguments, whole or in part. All other functions read their arguments and create a new value.
const (
	optionalSelect = "_?._"
	optionalIndex  = "_[?_]"
)

func (f *follower) call(c ast.CallExpr, locals *local) *value.Part {
	args := c.Args()
	if l := libraryOf[c.FunctionName()]; l != nil && (!c.IsMemberFunction() || l != libHTTP) { // a member call of libHTTP is counted with the client
		if f.called == nil {
			f.called = map[string]bool{}
		}
		f.called[l.Name] = true
	}
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	part := func(i int) *value.Part { return f.walk(args[i], locals) }
	switch name := c.FunctionName(); {
	case name == operators.Conditional:
		part(0).Read()
		return f.Join(part(1), part(2))
	case name == operators.Index, name == optionalIndex, name == optionalSelect:
		return f.indexed(args[0], args[1], locals)
	case name == operators.Add, name == "orValue", name == "or":
		return f.Join(part(0), part(1))
	case name == "dyn", name == "value" && len(args) == 1, name == "optional.of":
		return part(0)
	case name == "size":
		part(0).ReadNames()
		return &value.Part{}
	case name == "hasValue" && isLook(args[0]):
		part(0)
		return &value.Part{}
	case (name == operators.Equals || name == operators.NotEquals) && (isNull(args[0]) || isNull(args[1])):
		part(0)
		part(1)
		return &value.Part{}
	case name == operators.In:
		return f.in(args[0], args[1], locals)
	}
	for i := range args {
		part(i).Read()
	}
	return &value.Part{}
}

// indexed returns the parts for a member by name, or for an item by index.
func (f *follower) indexed(of, by ast.Expr, locals *local) *value.Part {
	p := f.walk(of, locals)
	if name, ok := literalText(by); ok {
		return f.Member(p, name)
	}
	f.walk(by, locals).Read()
	if t := f.checked.GetType(by.ID()); t != nil && t.IsExactType(types.IntType) {
		return f.Items(p)
	}
	p.Read()
	return &value.Part{}
}

// in tracks a test whether a map has a name, or a list an item.
func (f *follower) in(what, of ast.Expr, locals *local) *value.Part {
	p := f.walk(of, locals)
	if name, ok := literalText(what); ok {
		f.Member(p, name)
	} else {
		f.walk(what, locals).Read()
		p.Read()
	}
	return &value.Part{}
}

// isLook reports whether e only selects a part of a document.
func isLook(e ast.Expr) bool {
	switch e.Kind() {
	case ast.SelectKind:
		return true
	case ast.CallKind:
		name := e.AsCall().FunctionName()
		return name == optionalSelect || name == optionalIndex
	}
	return false
}

func literalText(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

func isNull(e ast.Expr) bool {
	return e.Kind() == ast.LiteralKind && e.AsLiteral() == types.NullValue
}
