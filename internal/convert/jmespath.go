package convert

import (
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/value"
)

// search converts the JMESPath expression of a variable.
func (c *converter) search(source, path string) (term, bool) {
	s, tree, ok := c.parse(source, path)
	if !ok {
		return term{}, false
	}
	// For Pod controllers, request."object" in quotes stays the controller.
	if s.kept = c.controllers && strings.Contains(source, `"object"`); s.kept && strings.Contains(source, "request.object") {
		c.refuse(path, "for Pod controllers, request.\"object\" in quotes is the controller in the classic rule, beside its template in request.object", "write request.object")
		return term{}, false
	}
	return s.tree(&tree, nil)
}

// query converts a JMESPath expression that is evaluated on a value.
func (c *converter) query(source, path string, on term) (term, bool) {
	s, tree, ok := c.parse(source, path)
	if !ok {
		return term{}, false
	}
	return s.tree(&tree, &on)
}

// parse parses a JMESPath expression, after the variables in it are converted.
func (c *converter) parse(source, path string) (s *search, tree jmespath.Tree, ok bool) {
	s = &search{converter: c, path: path, source: source}
	query, ok := s.nested(source)
	if !ok {
		return nil, tree, false
	}
	tree, err := parsed(query)
	if err != nil {
		c.refuse(path, err.Error(), "")
		return nil, tree, false
	}
	return s, tree, true
}

// search is the conversion of one expression.
type search struct {
	*converter
	path, source string
	inner        []term // the variables in the expression
	// kept: the object is not replaced by the Pod template of controllers.
	kept bool
	// safe collects the conditions that no function in the condition of a filter fails; nil outside of filters.
	safe *[]expr
}

func (s *search) unknown(what string) (term, bool) {
	s.refuse(s.path, what+" in {{ "+s.source+" }} is not converted", "")
	return term{}, false
}

// tree converts a node. current is the value on which the node is evaluated; it is nil for the variables of the rule.
func (s *search) tree(t *jmespath.Tree, current *term) (term, bool) {
	switch t.Kind {
	case "ASTField":
		name, _ := strconv.Unquote(t.Value)
		switch {
		case name == "null": // many write it for `null`; nothing has this name
			return s.constant(nil)
		case current == nil:
			return s.named(name)
		}
		return s.below(*current, name)
	case "ASTIdentity", "ASTCurrentNode":
		switch {
		case current != nil:
			return *current, true
		case s.here != (expr{}):
			return term{expr: s.here}, true
		}
		return s.unknown("@")
	case "ASTLiteral":
		return s.literal(t.Value)
	case "ASTSubexpression":
		left, ok := s.tree(&t.Children[0], current)
		if !ok {
			return left, false
		}
		if t.Children[1].Kind == "ASTField" {
			return s.tree(&t.Children[1], &left)
		}
		there, present, filled := left.there(), left.present(), left.filled()
		if s.everywhere(left) {
			there = yes
		}
		if there != yes { // the right side is evaluated if the left one is there
			left.root, left.keys, left.needs, left.given = left.value(), nil, expr{}, expr{}
		}
		out, ok := s.tree(&t.Children[1], &left)
		if ok && there != yes {
			out.given = and(filled, orYes(out.given))
			if out.needs = and(present, orYes(out.needs)); out.shape == listShape && len(out.keys) == 0 {
				out.strict, out.expr = out.value(), member("("+there.within(bindsOr)+" ? "+out.within(bindsOr)+" : [])")
			}
		}
		return out, ok
	case "ASTPipe":
		left, ok := s.tree(&t.Children[0], current)
		if !ok {
			return left, false
		}
		left = left.piped()
		return s.tree(&t.Children[1], &left)
	case "ASTIndexExpression":
		return s.index(t, current)
	case "ASTProjection", "ASTFilterProjection":
		return s.projection(t, current)
	case "ASTValueProjection":
		return s.values(t, current)
	case "ASTFlatten":
		return s.flattened(t, current)
	case "ASTMultiSelectList":
		return s.items(t, current)
	case "ASTMultiSelectHash":
		return s.members(t, current)
	case "ASTOrExpression":
		return s.either(t, current)
	case "ASTAndExpression":
		return s.both(t, current)
	case "ASTNotExpression", "ASTComparator":
		e, ok := s.condition(t, current)
		return term{expr: e, shape: boolShape}, ok
	case "ASTFunctionExpression":
		return s.call(t, current)
	}
	return s.unknown("the construct " + strings.TrimPrefix(t.Kind, "AST"))
}

// everywhere reports whether a path is the spec, which every object of the API has whose kind has one.
func (s *search) everywhere(t term) bool {
	return isObject(t.root) && len(t.place) == 1 && t.place[0] == "spec" && t.simple() && s.typeAt(s.matched, t.place) == "map"
}

// named returns the variable with this name.
func (s *search) named(name string) (term, bool) {
	if e, ok := s.entries[name]; ok {
		s.demands = append(s.demands, e.demands...)
		return e, true
	}
	switch {
	case name == "request" && !s.deleting:
		return term{expr: member("request"), root: member("request")}, true
	case name == "target" && s.deleting:
		out := path(s.object)
		out.place = []string{}
		return out, true
	case name == "target" && strings.HasPrefix(s.object.text, "request."):
		return path(s.changed), true
	case name == "elementIndex" && s.position != (expr{}):
		return term{expr: s.position, shape: numberShape}, true
	case name == "element" && s.element != (expr{}):
		return s.typed(term{expr: s.element, root: s.element, place: s.elementPlace, shape: s.elementShape}), true
	case name == "images" && !s.deleting:
		return term{expr: member(imagesMark), root: member(imagesMark)}, true
	case name == "image" && s.image:
		return term{expr: member("image"), image: true}, true
	case name == "serviceAccountName" || name == "serviceAccountNamespace":
		part := map[string]string{"serviceAccountName": "[3]", "serviceAccountNamespace": "[2]"}[name]
		return term{expr: member("(request.userInfo.?username.orValue('').startsWith('system:serviceaccount:') ? request.userInfo.username.split(':')" + part + " : '')"), shape: textShape}, true
	}
	if n, ok := strings.CutPrefix(name, "element"); ok && s.element != (expr{}) {
		index := strings.HasPrefix(n, "Index")
		depth, err := strconv.Atoi(strings.TrimPrefix(n, "Index"))
		if err == nil && depth < len(s.outer) {
			if l := s.outer[depth]; index && l.position != (expr{}) {
				return term{expr: l.position, shape: numberShape}, true
			} else if !index {
				return term{expr: l.element, root: l.element}, true
			}
		}
	}
	if s.predicate != (expr{}) {
		return path(s.predicate, name), true
	}
	return s.unknown("the variable " + name)
}

// texts of the request that are always strings.
var stringKeys = []string{
	"request.userInfo.username", "object.metadata.name", "object.metadata.namespace", "request.kind.kind", "request.kind.group", "request.kind.version",
	"object.kind", "object.apiVersion", "oldObject.metadata.name", "oldObject.metadata.namespace",
}

// below returns the field of left with this name.
func (s *search) below(left term, name string) (term, bool) {
	if left.text == "request" && len(left.keys) == 0 {
		switch name {
		case "object":
			out := path(s.object)
			if isObject(s.object) || s.object.text == "variables.pod" {
				out.place = []string{}
			}
			return out, true
		case "oldObject":
			out := path(member(name))
			if isObject(s.object) {
				out.place = []string{}
			}
			return out, true
		case "operation", "name", "namespace":
			out := path(left.expr, name)
			out.shape = textShape
			return out, true
		case "userInfo", "kind", "requestKind", "resource", "requestResource", "subResource", "dryRun", "options":
			return path(left.expr, name), true
		case "roles", "clusterRoles":
			return s.held(map[string]string{"roles": "Role", "clusterRoles": "ClusterRole"}[name], s.path), true
		}
		return s.unknown("request." + name)
	}
	if left.image {
		return s.imageField(left, name)
	}
	if s.kept && isObject(left.root) && len(left.keys) == 0 && len(left.place) == 0 {
		root := member(left.root.text + "['" + name + "']")
		return term{expr: root, root: root}, true
	}
	if left.root.text == imagesMark {
		return s.imagesBelow(left, name)
	}
	if left.shape == boolShape && len(left.keys) == 0 { // it has no fields: !a.b is the field b of !a
		return term{expr: member("null"), needs: left.needs, given: no, safe: left.safe}, true
	}
	if left.text == "request.namespace" || left.text == "request.name" || left.text == "null" { // texts have no fields, nor has null
		return term{expr: member("null"), given: no, lenient: left.lenient}, true
	}
	var out term
	key, dynamic, ok := s.key(name)
	switch {
	case !ok:
		return left, false
	case left.root == (expr{}):
		out = path(left.value())
		if there := left.present(); there != yes {
			out.needs = there
		}
		if given := left.filled(); given != yes {
			out.given = given
		}
		out.place = left.place
	default:
		out = left
		out.shape, out.maybeList, out.strict = anyShape, false, expr{}
	}
	if dynamic != (expr{}) {
		at := out.expr
		if out.place != nil {
			out.place = append(slices.Clip(out.place), "*")
		}
		out.needs = and(out.present(), comparison(dynamic.within(bindsUnary)+" in "+at.within(bindsUnary)))
		out.root = member(at.within(bindsMember) + "[" + dynamic.text + "]")
		out.expr, out.keys = out.root, nil
		return s.typed(out), true
	}
	if isObject(out.root) && len(out.keys) == 1 && out.keys[0] == "metadata" && !s.inMessage {
		if pod := s.podOf(out.root, key); pod != out.root {
			out.root, out.expr = pod, pod.field("metadata")
		}
	}
	key = renamed(out.root, out.keys, key)
	out.keys = append(slices.Clone(out.keys), key)
	out.expr = out.expr.field(key)
	if out.place != nil {
		out.place = append(slices.Clip(out.place), key)
	}
	out = s.typed(out)
	plain := strings.TrimPrefix(out.text, "variables.")
	switch {
	case slices.Contains(stringKeys, plain):
		out.shape = textShape
	case plain == "request.userInfo.groups":
		out.shape, out.elements = listShape, textShape
	case len(out.keys) > 1 && out.keys[0] == "metadata" && (out.keys[1] == "labels" || out.keys[1] == "annotations") && len(out.keys) == 3:
		out.shape = textShape
	}
	return out, true
}

// typed returns a path with the shape that the API declares.
func (s *search) typed(t term) term {
	if t.place == nil {
		return t
	}
	kinds := s.matched
	if s.inPods() {
		kinds = kinds[:min(1, len(kinds))] // the Pod, which is the template in the others
	}
	if len(t.place) == 1 && t.place[0] == "rules" { // the API server writes null for the rules of a role that has none
		t.given = and(orYes(t.given), comparison(t.text+" != null"))
	}
	switch s.typeAt(kinds, t.place) {
	case "string":
		t.shape = textShape
	case "integer", "number":
		t.shape = numberShape
	case "boolean":
		t.shape = boolShape
	case "map":
		t.shape = mapShape
	case "list":
		t.shape = listShape
		if len(kinds) > 0 {
			if one := s.typeAt(kinds, t.itemPlace()); one == "string" {
				t.elements = textShape
			}
		}
	}
	return t
}

// literal converts a literal.
func (s *search) literal(source string) (term, bool) {
	v, err := value.DecodeJSON([]byte(source))
	if err != nil {
		if text, err := strconv.Unquote(source); err == nil {
			v = text
		} else {
			return s.unknown("the literal " + source)
		}
	}
	if text, isText := v.(string); isText {
		return s.text(text)
	}
	return s.constant(v)
}

// constant returns a value of JSON.
func (s *search) constant(v any) (term, bool) {
	switch v := v.(type) {
	case nil:
		return term{expr: member("null"), given: no}, true
	case bool:
		return term{expr: member(strconv.FormatBool(v)), shape: boolShape}, true
	case string:
		return s.text(v)
	case int64:
		return term{expr: member(strconv.FormatInt(v, 10)), shape: numberShape}, true
	case float64:
		return term{expr: member(strconv.FormatFloat(v, 'f', -1, 64)), shape: numberShape}, true
	case []any:
		parts := make([]string, 0, len(v))
		same := true
		for _, e := range v {
			one, ok := s.constant(e)
			if !ok {
				return one, false
			}
			same = same && one.shape == textShape
			parts = append(parts, one.text)
		}
		if !same {
			for i, p := range parts {
				parts[i] = "dyn(" + p + ")"
			}
		}
		return term{expr: member("[" + strings.Join(parts, ", ") + "]"), shape: listShape}, true
	case map[string]any:
		var parts []string
		for _, k := range sortedNames(v) {
			one, ok := s.constant(v[k])
			if !ok {
				return one, false
			}
			parts = append(parts, text(k)+": dyn("+one.text+")")
		}
		return term{expr: member("{" + strings.Join(parts, ", ") + "}")}, true
	}
	return s.unknown("a literal")
}

// index converts an element of a list, [2] or [-1], which is null where the list is shorter.
func (s *search) index(t *jmespath.Tree, current *term) (term, bool) {
	left, ok := s.tree(&t.Children[0], current)
	if !ok {
		return left, false
	}
	if t.Children[1].Kind != "ASTIndex" {
		return s.slice(left, t.Children[1].Value)
	}
	n, err := strconv.Atoi(t.Children[1].Value)
	if err != nil {
		return s.unknown("an index")
	}
	list := left.value()
	if left.shape == listShape && len(left.keys) == 0 {
		list = left.expr // a missing list gives null, as an empty one does
		left.given = expr{}
	}
	of := list.within(bindsMember)
	out := term{shape: anyShape, lenient: left.lenient}
	if left.text == "" {
		return s.unknown("an index")
	}
	if left.elements == textShape {
		out.shape = textShape
	}
	out.needs = left.present()
	out.given = and(left.filled(), comparison("size("+list.text+") > "+strconv.Itoa(max(n, -n-1))))
	if isSplit(list.text) && (n == 0 || n == -1) {
		out.given = left.filled() // a text has at least one part
	}
	at := strconv.Itoa(n)
	if n < 0 {
		at = "size(" + list.text + ") - " + strconv.Itoa(-n)
	}
	out.expr = member(of + "[" + at + "]")
	out.root = out.expr
	if out.place = left.itemPlace(); out.place != nil {
		out = s.typed(out)
	}
	return out, true
}

// parsed parses an expression, in which marks stand for variables.
func parsed(query string) (jmespath.Tree, error) { return jmespath.Parse(query) }
