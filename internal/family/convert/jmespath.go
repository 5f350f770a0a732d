package convert

import (
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
)

// shape is the known type of an expression's value.
type shape int

const (
	anyShape shape = iota
	textShape
	numberShape
	boolShape
	listShape
	durationShape
)

// term is a converted JMESPath expression: a path below a root, or any other expression.
type term struct {
	expr
	root  expr     // if the term is a path
	keys  []string // if the term is a path
	shape shape
	// maybeList: the shape is that of a default; the value itself may be a list.
	maybeList bool
	needs     expr // further parts that must exist; zero for none
}

// path returns the value of the keys below root. A missing key is an error, in both languages.
func path(root expr, keys ...string) term {
	at := root
	for _, k := range keys {
		at = at.field(k)
	}
	return term{expr: at, root: root, keys: keys}
}

// orElse returns the value of a path, or the expression other if a key is missing.
func (t term) orElse(other string) expr {
	if len(t.keys) == 0 {
		return t.expr
	}
	at, keys := t.root, t.keys
	if isObject(at) && len(keys) > 1 && (keys[0] == "spec" || keys[0] == "metadata") {
		at, keys = at.field(keys[0]), keys[1:] // autogen rewrites the literal text object.spec for Pod controllers
	}
	for _, k := range keys {
		at = at.optional(k)
	}
	return member(at.text + ".orValue(" + other + ")")
}

// there returns the condition that all keys of a path exist.
func (t term) there() expr {
	out, at := yes, t.root
	if t.needs != (expr{}) {
		out = t.needs
	}
	for _, k := range t.keys {
		out, at = and(out, at.has(k)), at.field(k)
	}
	return out
}

// search converts the JMESPath expression of a variable.
func (c *converter) search(source, path string) (term, bool) {
	tree, err := jmespath.Parse(source)
	if err != nil {
		c.refuse(path, err.Error(), "")
		return term{}, false
	}
	if c.controllers && strings.Contains(source, `"object"`) {
		c.refuse(path, "for Pod controllers, request.\"object\" in quotes is the controller in the classic rule, and its template in a CEL policy", "write request.object")
		return term{}, false
	}
	s := &search{converter: c, path: path, source: source}
	return s.tree(&tree, expr{})
}

// search is the conversion of one expression.
type search struct {
	*converter
	path, source string
	piped        []term // the left sides of the enclosing pipes
	// demanded: a missing list is an error, because it is the argument of a function that does not accept null.
	demanded bool
}

// pipeMark stands for the current value on the right side of a pipe.
const pipeMark = "|"

func (s *search) unknown(what string) (term, bool) {
	s.refuse(s.path, what+" in {{ "+s.source+" }} is not converted", "")
	return term{}, false
}

// tree converts a node. current is the value on which the node is evaluated; it is zero for the variables of the rule.
func (s *search) tree(t *jmespath.Tree, current expr) (term, bool) {
	switch t.Kind {
	case "ASTField":
		name, _ := strconv.Unquote(t.Value)
		if current == (expr{}) {
			return s.named(name)
		}
		if n := len(s.piped); n > 0 && current.text == pipeMark {
			return s.below(s.piped[n-1], t)
		}
		return path(current, name), true
	case "ASTIdentity", "ASTCurrentNode":
		if current == (expr{}) && s.here != (expr{}) {
			return term{expr: s.here}, true
		}
		if current == (expr{}) {
			return s.unknown("@")
		}
		if n := len(s.piped); n > 0 && current.text == pipeMark {
			return s.piped[n-1], true
		}
		return term{expr: current}, true
	case "ASTLiteral":
		return s.literal(t.Value)
	case "ASTSubexpression":
		left, ok := s.tree(&t.Children[0], current)
		if !ok {
			return left, false
		}
		return s.below(left, &t.Children[1])
	case "ASTIndexExpression":
		return s.index(t, current)
	case "ASTProjection", "ASTFilterProjection":
		return s.projection(t, current)
	case "ASTFlatten":
		all, ok := s.list(&t.Children[0], current)
		if kind := t.Children[0].Kind; ok && (kind == "ASTProjection" || kind == "ASTFilterProjection") {
			all.expr = flattened(all.expr)
		}
		return all, ok
	case "ASTOrExpression":
		return s.either(t, current)
	case "ASTNotExpression":
		inner, ok := s.condition(&t.Children[0], current)
		return term{expr: not(inner), shape: boolShape}, ok
	case "ASTComparator", "ASTAndExpression":
		e, ok := s.condition(t, current)
		return term{expr: e, shape: boolShape}, ok
	case "ASTFunctionExpression":
		return s.call(t, current)
	case "ASTPipe":
		left, ok := s.tree(&t.Children[0], current)
		if !ok || left.text == "request" || left.text == "request.userInfo" || left.shape == listShape && len(left.keys) == 0 {
			return s.unknown("the construct Pipe") // functions return an error for the projection of a missing value
		}
		s.piped = append(s.piped, left)
		out, ok := s.tree(&t.Children[1], member(pipeMark))
		s.piped = s.piped[:len(s.piped)-1]
		return out, ok
	}
	return s.unknown("the construct " + strings.TrimPrefix(t.Kind, "AST"))
}

// named returns the variable with this name.
func (s *search) named(name string) (term, bool) {
	switch {
	case name == "request" && !s.deleting:
		return term{expr: member("request"), root: member("request")}, true
	case name == "target" && s.deleting:
		return path(s.object), true
	case name == "target" && s.object.text == "request.object":
		return path(s.changed), true
	case name == "elementIndex" && s.position != (expr{}):
		return term{expr: s.position, shape: numberShape}, true
	}
	if name == "element" && s.element != (expr{}) {
		return term{expr: s.element, root: s.element}, true
	}
	if e, ok := s.entries[name]; ok {
		return e, true
	}
	return s.unknown("the variable " + name)
}

// below returns the field of left that the node names.
func (s *search) below(left term, t *jmespath.Tree) (term, bool) {
	if t.Kind != "ASTField" {
		return s.tree(t, left.expr)
	}
	name, _ := strconv.Unquote(t.Value)
	if left.text == "request" {
		switch name {
		case "object":
			return path(s.object), true
		case "oldObject":
			return path(member(name)), true
		case "operation", "name", "namespace":
			out := path(left.expr, name)
			out.shape = textShape
			return out, true
		case "userInfo", "kind", "requestKind", "resource", "requestResource", "subResource", "dryRun", "options":
			return path(left.expr, name), true
		}
		return s.unknown("request." + name)
	}
	if left.root == (expr{}) {
		return path(left.expr, name), true
	}
	if isObject(left.root) && len(left.keys) == 1 && left.keys[0] == "metadata" && !s.inMessage {
		s.ofController(name, s.path)
	}
	out := path(left.root, append(append([]string(nil), left.keys...), name)...)
	switch strings.TrimPrefix(out.text, "variables.") {
	case "request.userInfo.username", "object.metadata.name", "object.metadata.namespace", "request.kind.kind", "object.kind", "object.apiVersion":
		out.shape = textShape
	case "request.userInfo.groups":
		out.shape = listShape
	}
	return out, true
}

func (s *search) literal(source string) (term, bool) {
	switch {
	case strings.HasPrefix(source, `"`):
		v, err := strconv.Unquote(source)
		if err != nil {
			return s.unknown("the literal " + source)
		}
		return term{expr: member(text(v)), shape: textShape}, true
	case source == "true" || source == "false":
		return term{expr: member(source), shape: boolShape}, true
	case source == "[]":
		return term{expr: member(source), shape: listShape}, true
	case source == "{}":
		return term{expr: member(source)}, true
	}
	if _, err := strconv.ParseInt(source, 10, 64); err == nil {
		return term{expr: member(source), shape: numberShape}, true
	}
	return s.unknown("the literal " + source)
}

// index converts an element of a list, [2] or [-1].
func (s *search) index(t *jmespath.Tree, current expr) (term, bool) {
	if t.Children[1].Kind != "ASTIndex" {
		return s.unknown("a slice")
	}
	left, ok := s.tree(&t.Children[0], current)
	if !ok {
		return left, false
	}
	n := t.Children[1].Value
	if strings.HasPrefix(n, "-") {
		return s.unknown("an index from the end")
	}
	return term{expr: member(left.within(bindsMember) + "[" + n + "]"), shape: anyShape}, true
}

// list converts the left side of a projection to a list. If a key is missing, the list is empty, or an error if it is demanded.
func (s *search) list(t *jmespath.Tree, current expr) (term, bool) {
	switch {
	case t.Kind == "ASTSubexpression" && t.Children[1].Kind == "ASTMultiSelectList":
		left, ok := s.tree(&t.Children[0], current)
		if !ok {
			return left, false
		}
		return s.sum(&t.Children[1], left)
	case t.Kind == "ASTIdentity" && current == (expr{}):
		return s.unknown("a projection without a list")
	}
	left, ok := s.tree(t, current)
	if !ok {
		return left, false
	}
	if s.demanded && current == (expr{}) {
		return term{expr: left.expr, shape: listShape}, true
	}
	return term{expr: left.orElse("[]"), shape: listShape}, true
}

// sum converts [a, b][]: the elements of those lists among a and b that exist.
func (s *search) sum(t *jmespath.Tree, left term) (term, bool) {
	var parts []string
	for i := range t.Children {
		child := &t.Children[i]
		if child.Kind != "ASTField" {
			return s.unknown("a multiselect list with items other than fields")
		}
		part, ok := s.below(left, child)
		if !ok {
			return part, false
		}
		parts = append(parts, part.orElse("[]").text)
	}
	return term{expr: expr{strings.Join(parts, " + "), bindsComparison}, shape: listShape}, true
}

// flattened returns the elements of the lists in a list. They have any type (see elements).
func flattened(all expr) expr { return member("dyn(" + all.within(bindsMember) + ".flatten())") }

// projection converts a[].b, a[*].b and a[?c].b. Elements without b are left out.
func (s *search) projection(t *jmespath.Tree, current expr) (term, bool) {
	source := &t.Children[0]
	if source.Kind == "ASTFlatten" {
		source = &source.Children[0]
	}
	all, ok := s.list(source, current)
	if !ok {
		return all, false
	}
	if t.Children[0].Kind == "ASTFlatten" && (source.Kind == "ASTProjection" || source.Kind == "ASTFilterProjection") {
		all = term{expr: flattened(all.expr), shape: listShape}
	}
	x := s.variable()
	kept := yes
	if t.Kind == "ASTFilterProjection" {
		if kept, ok = s.condition(&t.Children[2], member(x)); !ok {
			return all, false
		}
	}
	right := &t.Children[1]
	if right.Kind == "ASTIdentity" {
		if kept == yes {
			return all, true
		}
		return term{expr: all.macro("filter", x, kept), shape: listShape}, true
	}
	item, ok := s.tree(right, member(x))
	if !ok {
		return item, false
	}
	if item.root.text != x && item.shape == anyShape {
		return s.unknown("an expression after a projection")
	}
	kept = and(kept, item.there())
	if kept == yes {
		return term{expr: all.macro("map", x, item.expr), shape: listShape}, true
	}
	return term{expr: member(all.within(bindsMember) + ".map(" + x + ", " + kept.text + ", " + item.text + ")"), shape: listShape}, true
}

// either converts a || b, where the literal b replaces a missing value.
func (s *search) either(t *jmespath.Tree, current expr) (term, bool) {
	left, ok := s.tree(&t.Children[0], current)
	if !ok {
		return left, false
	}
	right, ok := s.tree(&t.Children[1], current)
	if !ok {
		return right, false
	}
	if right.keys != nil || right.root != (expr{}) {
		return s.unknown("|| with a path on its right side")
	}
	if left.keys == nil {
		if left.shape == listShape && right.text == "[]" {
			return left, true
		}
		return s.unknown("|| after an expression that is not a path")
	}
	if strings.Contains(left.root.text, "resource.get(") {
		return s.unknown("|| after an object that may not exist, which is an error in the classic language,")
	}
	if left.text == "request.operation" {
		s.note(s.path, "in scans a policy in CEL sees the operation CREATE, a classic policy none", "")
		return left, true
	}
	switch right.text {
	case "''", "[]", "{}", "false":
	default:
		s.note(s.path, "in {{ "+s.source+" }} the right side of || is used only if the left side is missing; the classic policy also uses it for an empty value and false", "")
	}
	text := left.root.text == "request" || slices.ContainsFunc(left.keys, func(k string) bool {
		return k == "labels" || k == "annotations" || k == "name" || k == "namespace"
	})
	return term{expr: left.orElse(right.text), shape: right.shape, maybeList: !text}, true
}

// condition converts a boolean expression.
func (s *search) condition(t *jmespath.Tree, current expr) (expr, bool) {
	switch t.Kind {
	case "ASTAndExpression":
		left, ok := s.condition(&t.Children[0], current)
		right, also := s.condition(&t.Children[1], current)
		return and(left, right), ok && also
	case "ASTOrExpression":
		left, ok := s.condition(&t.Children[0], current)
		right, also := s.condition(&t.Children[1], current)
		return or(left, right), ok && also
	case "ASTNotExpression":
		inner, ok := s.condition(&t.Children[0], current)
		return not(inner), ok
	case "ASTComparator":
		return s.comparison(t, current)
	}
	v, ok := s.tree(t, current)
	if ok && v.shape != boolShape {
		s.unknown("a value that is used as a condition")
		return no, false
	}
	return v.expr, ok
}

// comparators maps the names of jmespath.Tree to operators.
var comparators = map[string]string{"tEQ": "==", "tNE": "!=", "tLT": "<", "tLTE": "<=", "tGT": ">", "tGTE": ">="}

// comparison converts a comparison. A missing value is null, which equals only null and is neither less nor greater than any value.
func (s *search) comparison(t *jmespath.Tree, current expr) (expr, bool) {
	operator, ok := comparators[t.Value]
	if !ok {
		s.unknown("the operator " + t.Value)
		return no, false
	}
	left, ok := s.tree(&t.Children[0], current)
	right, also := s.tree(&t.Children[1], current)
	if !ok || !also {
		return no, false
	}
	if right.keys != nil {
		s.unknown("a comparison with a path on its right side")
		return no, false
	}
	compared := comparison(left.within(bindsUnary) + " " + operator + " " + right.within(bindsUnary))
	if operator == "!=" {
		return or(not(left.there()), compared), true
	}
	return and(left.there(), compared), true
}

// calls maps functions to their equivalents in CEL. %1 and %2 stand for the arguments.
var calls = map[string]struct {
	arguments int
	form      string
	shape     shape
}{
	"length":        {1, "size(%1)", numberShape},
	"to_upper":      {1, "%1.upperAscii()", textShape},
	"to_lower":      {1, "%1.lowerAscii()", textShape},
	"to_string":     {1, "string(%1)", textShape},
	"starts_with":   {2, "%1.startsWith(%2)", boolShape},
	"ends_with":     {2, "%1.endsWith(%2)", boolShape},
	"split":         {2, "%1.split(%2)", listShape},
	"join":          {2, "%2.join(%1)", textShape},
	"replace_all":   {3, "%1.replace(%2, %3)", textShape},
	"regex_match":   {2, "%2.matches(%1)", boolShape},
	"base64_decode": {1, "string(base64.decode(%1))", textShape},
	"base64_encode": {1, "base64.encode(bytes(%1))", textShape},
}

func (s *search) call(t *jmespath.Tree, current expr) (term, bool) {
	name, _ := strconv.Unquote(t.Value)
	form, known := calls[name]
	var arguments []term
	needs := yes
	for i := range t.Children {
		s.demanded = name == "contains" && i == 0
		a, ok := s.tree(&t.Children[i], current)
		if s.demanded = false; !ok {
			return a, false
		}
		arguments, needs = append(arguments, a), and(needs, a.there())
	}
	switch {
	case name == "contains" && len(arguments) == 2:
		switch arguments[0].shape {
		case listShape:
			return term{expr: comparison(arguments[1].within(bindsUnary) + " in " + arguments[0].within(bindsUnary)), shape: boolShape}, true
		case textShape:
			return term{expr: member(arguments[0].within(bindsMember) + ".contains(" + arguments[1].text + ")"), shape: boolShape}, true
		}
		return s.unknown("contains() of a value that may be a string or a list")
	case name == "keys" && len(arguments) == 1:
		x := s.variable()
		return term{expr: arguments[0].macro("map", x, member(x)), shape: listShape, needs: needs}, true
	case strings.HasPrefix(name, "time_"):
		return s.time(name, arguments, needs)
	case !known || len(arguments) != form.arguments:
		return s.unknown("the function " + name + "()")
	}
	out := form.form
	for i, a := range arguments {
		mark := "%" + strconv.Itoa(i+1)
		written := a.text
		if strings.Contains(out, mark+".") {
			written = a.within(bindsMember)
		}
		out = strings.ReplaceAll(out, mark, written)
	}
	return term{expr: member(out), shape: form.shape, needs: needs}, true
}

// time converts the functions for points in time, with RFC 3339 layouts.
func (s *search) time(name string, arguments []term, needs expr) (term, bool) {
	at := func(t term) string { return "timestamp(" + t.text + ")" }
	switch {
	case name == "time_now_utc" && len(arguments) == 0:
		return term{expr: member("string(time.truncate(time.now(), duration('1s')))"), shape: textShape}, true // without fractions, as in the classic language
	case name == "time_since" && len(arguments) == 3 && arguments[0].text == "''":
		until := at(arguments[2])
		if arguments[2].text == "''" {
			until = "time.now()"
		}
		return term{expr: expr{until + " - " + at(arguments[1]), bindsComparison}, shape: durationShape, needs: needs}, true
	case (name == "time_after" || name == "time_before") && len(arguments) == 2:
		operator := map[string]string{"time_after": " > ", "time_before": " < "}[name]
		return term{expr: comparison(at(arguments[0]) + operator + at(arguments[1])), shape: boolShape, needs: needs}, true
	}
	return s.unknown("the function " + name + "()")
}
