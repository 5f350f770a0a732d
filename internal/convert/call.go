package convert

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/jmespath"
)

// calls maps functions to their equivalents in CEL. %1 and %2 stand for the arguments.
var calls = map[string]struct {
	arguments int
	form      string
	shape     shape
}{
	"length":        {1, "size(%1)", numberShape},
	"to_upper":      {1, "%1.upperAscii()", textShape},
	"to_lower":      {1, "%1.lowerAscii()", textShape},
	"starts_with":   {2, "%1.startsWith(%2)", boolShape},
	"ends_with":     {2, "%1.endsWith(%2)", boolShape},
	"split":         {2, "%1.split(%2)", listShape},
	"join":          {2, "%2.join(%1)", textShape},
	"replace_all":   {3, "%1.replace(%2, %3)", textShape},
	"replace":       {4, "%1.replace(%2, %3, %4)", textShape},
	"regex_match":   {2, "%2.matches(%1)", boolShape},
	"base64_decode": {1, "string(base64.decode(%1))", textShape},
	"base64_encode": {1, "base64.encode(bytes(%1))", textShape},
	"equal_fold":    {2, "%1.lowerAscii() == %2.lowerAscii()", boolShape},
	"parse_yaml":    {1, "yaml.parse(%1)", anyShape},
	"parse_json":    {1, "json.unmarshal(%1)", anyShape},
	"sha256":        {1, "hash.sha256(%1)", textShape},
	"sha1":          {1, "hash.sha1(%1)", textShape},
	"md5":           {1, "hash.md5(%1)", textShape},
	"x509_decode":   {1, "x509.decode(%1)", anyShape},
	"sort":          {1, "%1.sort()", listShape},
	"reverse":       {1, "%1.reverse()", listShape},
	"abs":           {1, "math.abs(%1)", numberShape},
	"ceil":          {1, "math.ceil(double(%1))", numberShape},
	"floor":         {1, "math.floor(double(%1))", numberShape},
	"random":        {1, "random.random(%1)", textShape},
	"time_to_cron":  {1, "time.toCron(timestamp(%1))", textShape},
	"time_add":      {2, "string(timestamp(%1) + duration(%2))", textShape},
	"time_utc":      {1, "string(timestamp(int(timestamp(%1))))", textShape}, // without fractions
}

// call converts a function.
func (s *search) call(t *jmespath.Tree, current *term) (term, bool) {
	name, _ := strconv.Unquote(t.Value)
	if name == "map" || name == "sort_by" || name == "min_by" || name == "max_by" {
		return s.byExpression(name, t, current)
	}
	var arguments []term
	safe := yes
	for i := range t.Children {
		a, ok := s.tree(&t.Children[i], current)
		if !ok {
			return a, false
		}
		if name == "to_array" || name == "to_string" || name == "not_null" || name == "type" { // null is an argument, too
			arguments = append(arguments, a)
			continue
		}
		if a.shape == listShape && a.strict != (expr{}) {
			a.expr, a.strict = a.strict, expr{}
		}
		arguments, safe = append(arguments, a), and(safe, a.sound())
	}
	out, ok := s.function(name, arguments)
	if safe != yes {
		out.safe = and(safe, orYes(out.safe))
	}
	return out, ok
}

// function returns the value of a function for these arguments.
func (s *search) function(name string, a []term) (term, bool) {
	n := len(a)
	if n > 0 && a[0].shape == quantityShape && s.inMessage { // numbers, mostly
		a[0].expr, a[0].shape = member(a[0].within(bindsMember)+".asApproximateFloat()"), numberShape
	}
	switch {
	case n > 0 && a[0].shape == quantityShape && slices.Contains([]string{"round", "ceil", "floor", "abs"}, name):
		return s.unknown("the function " + name + "() of a quantity")
	case name == "reverse" && n == 1 && a[0].shape != listShape:
		return s.unknown("the function reverse() of what may be a text")
	case name == "contains" && n == 2:
		return s.contains(a[0], a[1])
	case name == "items" && n == 3 && isLiteral(a[1].text) && isLiteral(a[2].text):
		x := s.variable()
		if a[0].shape == listShape {
			one := "{" + a[1].text + ": dyn(" + x + "), " + a[2].text + ": dyn(" + a[0].within(bindsMember) + "[" + x + "])}"
			return term{expr: member("lists.range(size(" + a[0].text + ")).map(" + x + ", " + one + ")"), shape: listShape}, true
		}
		one := member("{" + a[1].text + ": dyn(" + x + "), " + a[2].text + ": dyn(" + a[0].within(bindsMember) + "[" + x + "])}")
		keys := member(a[0].macro("map", x, member(x)).text + ".sort()") // the order of a map in CEL is random
		return term{expr: keys.macro("map", x, one), shape: listShape, strict: keys.macro("map", x, one)}, true
	case name == "object_from_lists" && n == 2:
		i, x := s.variable(), s.variable()
		at := a[1].within(bindsMember) + "[" + i + "]"
		return term{expr: s.mapOf(a[0].atom(), i, x, i+" < size("+a[1].text+") ? dyn("+at+") : dyn(null)"), shape: mapShape}, true
	case name == "merge" && n == 2:
		i, x, y := s.variable(), s.variable(), s.variable()
		first, second := a[0].within(bindsMember), a[1].within(bindsMember)
		keys := member("(" + first + ".map(" + y + ", " + y + ") + " + second + ".filter(" + y + ", !(" + y + " in " + first + ")))")
		return term{expr: s.mapOf(keys, i, x, x+" in "+second+" ? dyn("+second+"["+x+"]) : dyn("+first+"["+x+"])"), shape: mapShape}, true
	case name == "to_boolean" && n == 1:
		return term{expr: member("{'true': true, 'false': false}[string(" + a[0].text + ").lowerAscii()]"), shape: boolShape}, true // another text is an error
	case name == "type" && n == 1:
		v := a[0].value().text
		names := expr{"type(" + v + ") == string ? 'string' : type(" + v + ") == bool ? 'boolean' : type(" + v + ") == list ? 'array' : type(" + v + ") == map ? 'object' : 'number'", bindsTernary}
		if there := a[0].there(); there != yes {
			names.text = there.within(bindsOr) + " ? (" + names.text + ") : 'null'"
		}
		return term{expr: names, shape: textShape}, true
	case name == "semver_compare" && n == 2 && isLiteral(a[1].text):
		return s.versions(a[0], literalOf(a[1].text))
	case name == "keys" && n == 1:
		x := s.variable()
		return term{expr: a[0].macro("map", x, member(x)), shape: listShape, strict: a[0].macro("map", x, member(x)), elements: textShape}, true
	case name == "values" && n == 1:
		x := s.variable()
		return term{expr: a[0].macro("map", x, member(a[0].within(bindsMember)+"["+x+"]")), shape: listShape}, true
	case name == "to_string" && n == 1:
		return s.toString(a[0])
	case name == "to_array" && n == 1:
		if a[0].shape == listShape {
			return term{expr: a[0].expr, shape: listShape, elements: a[0].elements, items: a[0].itemPlace()}, true
		}
		return term{expr: elements(a[0].expr), shape: listShape}, true
	case name == "to_number" && n == 1:
		if a[0].shape == numberShape {
			return a[0], true
		}
		asText := "string(" + a[0].text + ")"
		if a[0].shape == textShape {
			asText = a[0].within(bindsMember)
		}
		return term{expr: member("double(" + a[0].text + ")"), shape: numberShape, given: and(a[0].there(), member(asText+".matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?$')"))}, true
	case name == "not_null" && n > 0:
		out := a[n-1]
		for i := n - 2; i >= 0; i-- {
			out = notNull(a[i], out)
		}
		return out, true
	case name == "label_match" && n == 2:
		x := s.variable()
		wanted, labels := a[0].expr, a[1].expr
		return term{expr: wanted.macro("all", x, and(comparison(x+" in "+labels.within(bindsUnary)), comparison(labels.within(bindsMember)+"["+x+"] == "+wanted.within(bindsMember)+"["+x+"]"))), shape: boolShape}, true
	case name == "pattern_match" && n == 2 && a[0].shape == textShape && isLiteral(a[0].text):
		return term{expr: globText(member("string("+a[1].text+")"), literalOf(a[0].text)), shape: boolShape}, true
	case name == "pattern_match" && n == 2:
		return term{expr: member("string(" + a[1].text + ").matches(" + globOf(a[0].expr) + ")"), shape: boolShape}, true
	case name == "lookup" && n == 2 && a[1].shape == numberShape:
		return term{expr: member(a[0].within(bindsMember) + "[" + a[1].text + "]"), given: comparison("size(" + a[0].text + ") > " + a[1].within(bindsUnary))}, true
	case name == "lookup" && n == 2:
		x, at := a[0].within(bindsMember), a[1].text
		return term{expr: member(x + "[" + at + "]"), given: comparison(a[1].within(bindsUnary) + " in " + a[0].within(bindsUnary))}, true
	case name == "trim_prefix" && n == 2:
		return term{expr: expr{a[0].within(bindsMember) + ".startsWith(" + a[1].text + ") ? " + a[0].within(bindsMember) + ".substring(size(" + a[1].text + ")) : " + a[0].text, bindsTernary}, shape: textShape}, true
	case name == "truncate" && n == 2 && a[1].shape == numberShape && wholeNumber().MatchString(a[1].text):
		return term{expr: expr{"size(" + a[0].text + ") > " + a[1].text + " ? " + a[0].within(bindsMember) + ".substring(0, " + a[1].text + ") : " + a[0].text, bindsTernary}, shape: textShape}, true
	case (name == "regex_replace_all" || name == "regex_replace_all_literal") && n == 3 && isLiteral(a[2].text):
		with := literalOf(a[2].text)
		if strings.Contains(with, `\`) || name == "regex_replace_all_literal" && strings.Contains(with, "$") {
			break
		}
		with = groups.ReplaceAllString(with, `\$1$2`)
		source := a[1].text
		if a[1].shape != textShape {
			source = "string(" + source + ")"
		}
		return term{expr: member("regex.replace(" + source + ", " + a[0].text + ", " + text(with) + ")"), shape: textShape}, true
	case name == "trim" && n == 2 && isLiteral(a[1].text):
		set := "[" + regexp.QuoteMeta(literalOf(a[1].text)) + "]+"
		return term{expr: member("regex.replace(" + a[0].text + ", " + text("^"+set+"|"+set+"$") + ", '')"), shape: textShape}, true
	case name == "compare" && n == 2:
		return term{expr: expr{a[0].within(bindsUnary) + " == " + a[1].within(bindsUnary) + " ? 0 : " + a[0].within(bindsUnary) + " < " + a[1].within(bindsUnary) + " ? -1 : 1", bindsTernary}, shape: numberShape}, true
	case name == "round" && n == 2:
		return term{expr: member("math.round(double(" + a[0].text + "), int(" + a[1].text + "))"), shape: numberShape}, true
	case (name == "max" || name == "min") && n == 1:
		return s.extreme(name, a[0])
	case name == "avg" && n == 1:
		all := numbers(s, a[0])
		return term{expr: expr{all.text + ".sum() / double(size(" + a[0].text + "))", bindsComparison}, shape: numberShape, given: comparison("size(" + a[0].text + ") > 0")}, true
	case name == "sum" && n == 1:
		return s.total(a[0])
	case (name == "add" || name == "subtract" || name == "multiply" || name == "divide" || name == "modulo") && n == 2:
		return s.arithmetic(name, a[0], a[1])
	case strings.HasPrefix(name, "time_"):
		if out, ok := s.time(name, a); ok {
			return out, true
		}
	}
	form, known := calls[name]
	if !known || n != form.arguments {
		return s.unknown("the function " + name + "()")
	}
	out := form.form
	for i, one := range a {
		mark := "%" + strconv.Itoa(i+1)
		written := one.text
		if strings.Contains(out, mark+".") {
			written = one.within(bindsMember)
		}
		out = strings.ReplaceAll(out, mark, written)
	}
	made := term{expr: member(out), shape: form.shape}
	switch name {
	case "split":
		made.elements = textShape
	case "sort", "reverse":
		made.elements = a[0].elements
	case "equal_fold":
		made.expr = comparison(out)
	}
	return made, true
}

// unsorted returns a list of items() without its order, which does not matter where all elements are looked at: API servers before Kubernetes 1.34 cannot
// sort.
func unsorted(list string) string {
	if m := keysInOrder.FindStringSubmatch(list); m != nil && m[2] == m[3] && strings.Count(list, ".sort()") == 1 {
		return strings.Replace(list, m[1], "", 1)
	}
	return list
}

// keysInOrder matches the sorted keys of items().
var keysInOrder = regexp.MustCompile(`(\.map\((\w+), (\w+)\)\.sort\(\))\.map\(\w+, \{`)

// mapOf returns a map with these keys. value is the expression of the value of the key x, at the index i of the list.
func (c *converter) mapOf(keys expr, i, x, value string) expr {
	if c.policy.Spec.Rules[c.index].Generation == nil {
		return member(keys.text + ".transformMapEntry(" + i + ", " + x + ", {" + x + ": " + value + "})")
	}
	// Policies that generate have no loops with two variables.
	at := keys.text + ".map(" + x + ", {'value': " + value + "})"
	if indexed(value, i) {
		at = "lists.range(size(" + keys.text + ")).map(" + i + ", {'value': " + value + "})"
	}
	return member("transform.listObjToMap(" + keys.text + ".map(" + x + ", {'key': dyn(" + x + ")}), " + at + ", 'key', 'value')")
}

// groups matches references to groups in the replacement of a regular expression.
var groups = regexp.MustCompile(`\$(?:(\d)|\{(\d)\})`)

// isLiteral reports whether an expression is one literal text.
func isLiteral(e string) bool {
	return strings.HasPrefix(e, "'") && strings.HasSuffix(e, "'") && len(e) > 1 && !strings.Contains(strings.ReplaceAll(e[1:len(e)-1], `\'`, ""), "'")
}

// literalOf returns the text of a literal.
func literalOf(e string) string {
	out, err := strconv.Unquote(`"` + strings.NewReplacer(`\'`, `'`, `"`, `\"`).Replace(e[1:len(e)-1]) + `"`)
	if err != nil {
		return e[1 : len(e)-1]
	}
	return out
}

// isSplit reports whether an expression is a list of the parts of a text, of which there is at least one.
func isSplit(e string) bool {
	i := strings.LastIndex(e, ".split(")
	return i >= 0 && strings.HasSuffix(e, ")") && !strings.ContainsAny(e[i+len(".split("):len(e)-1], "()")
}

// contains converts contains() of a text or a list.
func (s *search) contains(in, part term) (term, bool) {
	inList := comparison(part.within(bindsUnary) + " in " + in.within(bindsUnary))
	if in.shape == listShape && part.there() != yes { // a list may contain null
		inList = comparison(s.orNull(part).within(bindsUnary) + " in " + in.within(bindsUnary))
	}
	inText := member(in.within(bindsMember) + ".contains(" + part.text + ")")
	switch {
	case in.shape == listShape:
		return term{expr: inList, shape: boolShape}, true
	case in.shape == textShape && !in.maybeList:
		return term{expr: inText, shape: boolShape}, true
	case part.shape != textShape:
		inText = and(comparison("type("+part.text+") == string"), inText)
	}
	return term{expr: expr{"type(" + in.text + ") == string ? " + inText.within(bindsOr) + " : " + inList.within(bindsOr), bindsTernary}, shape: boolShape}, true
}

// toString returns the text of a value, which is null where it is missing.
func (s *search) toString(t term) (term, bool) {
	if t.shape == durationShape || t.shape == quantityShape {
		return s.unknown("the text of a duration or a quantity")
	}
	out := term{expr: spelled(t, len(t.keys) > 0 && s.scalar(t)), shape: textShape}
	if there := t.there(); there != yes {
		out.expr = expr{there.within(bindsOr) + " ? " + out.within(bindsOr) + " : 'null'", bindsTernary}
	}
	return out, true
}

// scalar reports whether a path ends at a name or another value that is a text or a number in the API.
func (s *search) scalar(t term) bool {
	switch t.keys[len(t.keys)-1] {
	case "name", "namespace", "uid", "image", "runAsUser", "runAsGroup", "port", "replicas", "path", "host":
		return true
	}
	return t.shape == textShape
}

// byExpression converts the functions that take an expression for each element.
func (s *search) byExpression(name string, t *jmespath.Tree, current *term) (term, bool) {
	if len(t.Children) != 2 {
		return s.unknown("the function " + name + "()")
	}
	of, by := &t.Children[0], &t.Children[1]
	if name == "map" {
		of, by = by, of
	}
	all, ok := s.tree(of, current)
	if !ok || by.Kind != "ASTExpRef" {
		return s.unknown("the function " + name + "()")
	}
	list := all.list()
	x := s.variable()
	one, ok := s.tree(&by.Children[0], &term{expr: member(x), root: member(x), shape: all.elements})
	if !ok {
		return one, false
	}
	strict := list.value()
	switch name {
	case "map":
		out := s.orNull(one)
		return term{expr: strict.macro("map", x, out), shape: listShape, elements: one.shape}, true
	case "sort_by":
		return term{expr: strict.macro("sortBy", x, one.value()), shape: listShape}, true
	}
	at := "[0]"
	if name == "max_by" {
		at = "[size(" + strict.text + ") - 1]"
	}
	out := member(strict.macro("sortBy", x, one.value()).text + at)
	return term{expr: out, root: out, given: comparison("size(" + strict.text + ") > 0")}, true
}

// comparator matches one comparison of a range of versions.
var comparator = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(>=|<=|!=|==|=|!|>|<)?\s*([0-9]+\.[0-9]+\.[0-9]+\S*)$`)
})

// versions converts semver_compare with a range such as ">=1.2.3 <2.0.0 || 3.0.0". What is no version counts as 0.0.0.
func (s *search) versions(version term, wanted string) (term, bool) {
	var alternatives []expr
	of := "semver(isSemver(" + version.text + ") ? " + version.within(bindsOr) + " : '0.0.0')"
	for _, alternative := range strings.Split(wanted, "||") {
		all := yes
		for _, one := range strings.Fields(alternative) {
			m := comparator().FindStringSubmatch(one)
			if m == nil {
				return s.unknown("the range of versions " + strconv.Quote(wanted))
			}
			operator := map[string]string{"": "==", "=": "==", "==": "==", "!": "!=", "!=": "!="}[m[1]]
			if operator == "" {
				operator = m[1]
			}
			all = and(all, comparison(of+".compareTo(semver("+text(m[2])+")) "+operator+" 0"))
		}
		alternatives = append(alternatives, all)
	}
	return term{expr: or(alternatives...), shape: boolShape}, true
}

// time converts the functions for points in time, with RFC 3339 layouts.
func (s *search) time(name string, a []term) (term, bool) {
	at := func(t term) string { return "timestamp(" + t.text + ")" }
	switch {
	case (name == "time_now_utc" || name == "time_now") && len(a) == 0:
		return term{expr: member("string(time.truncate(time.now(), duration('1s')))"), shape: textShape}, true // without fractions, as in the classic language
	case name == "time_since" && len(a) == 3 && a[0].text == "''":
		until := at(a[2])
		if a[2].text == "''" {
			until = "time.now()"
		}
		return term{expr: expr{until + " - " + at(a[1]), bindsComparison}, shape: durationShape}, true
	case name == "time_diff" && len(a) == 2:
		return term{expr: expr{at(a[1]) + " - " + at(a[0]), bindsComparison}, shape: durationShape}, true
	case (name == "time_after" || name == "time_before") && len(a) == 2:
		operator := map[string]string{"time_after": " > ", "time_before": " < "}[name]
		return term{expr: comparison(at(a[0]) + operator + at(a[1])), shape: boolShape}, true
	case name == "time_between" && len(a) == 3:
		return term{expr: and(comparison(at(a[0])+" > "+at(a[1])), comparison(at(a[0])+" < "+at(a[2]))), shape: boolShape}, true
	case name == "time_truncate" && len(a) == 2:
		return term{expr: member("string(time.truncate(" + at(a[0]) + ", duration(" + a[1].text + ")))"), shape: textShape}, true
	}
	return term{}, false
}

// extreme converts the largest or smallest number or text of a list.
func (s *search) extreme(name string, list term) (term, bool) {
	if list.elements == textShape {
		at := map[string]string{"max": "size(" + list.text + ") - 1", "min": "0"}[name]
		return term{expr: member(list.within(bindsMember) + ".sort()[" + at + "]"), shape: textShape, given: comparison("size(" + list.text + ") > 0")}, true
	}
	return term{expr: member("math." + map[string]string{"max": "greatest", "min": "least"}[name] + "(" + numbers(s, list).text + ")"), shape: numberShape, given: comparison("size(" + list.text + ") > 0")}, true
}

func numbers(s *search, list term) expr {
	x := s.variable()
	return list.macro("map", x, member("double("+x+")"))
}

// total converts the sum of a list of numbers or of quantities. The sum of no elements is an error.
func (s *search) total(list term) (term, bool) {
	some := comparison("size(" + list.text + ") > 0")
	if sums := regexp.MustCompile(`\b(cpu|memory|storage)\b`); list.elements != numberShape && sums.MatchString(list.text) {
		x := s.variable()
		all := list.macro("map", x, member("quantity(string("+x+")).asApproximateFloat()"))
		sum := expr{some.text + " ? " + thousandths(all.text+".sum()") + " : ''", bindsTernary}
		return term{expr: member("quantity(" + sum.text + ")"), shape: quantityShape, safe: some}, true
	}
	all := numbers(s, list).text
	return term{expr: expr{some.text + " ? " + all + ".sum() : " + all + "[0]", bindsTernary}, shape: numberShape, safe: some}, true
}

// thousandths returns the text of a quantity with this value.
func thousandths(value string) string { return "string(int(math.round(" + value + " * 1000.0))) + 'm'" }

// notNull returns the first of two values unless it is missing or null.
func notNull(a, b term) term {
	out := term{shape: b.shape, maybeList: true, safe: b.safe}
	if there := b.there(); there != yes {
		out.given = or(a.there(), there)
	}
	if a.simple() && b.there() == yes {
		out.expr = member(a.optional().text + ".orValue(" + b.text + ")")
		return out
	}
	out.shape = anyShape
	out.expr = expr{a.there().within(bindsOr) + " ? dyn(" + a.text + ") : dyn(" + b.text + ")", bindsTernary}
	return out
}

// arithmetic converts the functions for numbers, and the ratio of two quantities.
func (s *search) arithmetic(name string, a, b term) (term, bool) {
	operator := map[string]string{"add": " + ", "subtract": " - ", "multiply": " * ", "divide": " / "}[name]
	number := func(t term) bool { return t.shape == numberShape && !t.maybeList }
	loose := func(t term) bool { return t.shape == anyShape || t.shape == numberShape }
	switch {
	case operator != "" && number(a) && number(b), (name == "add" || name == "subtract") && (number(a) && loose(b) || number(b) && loose(a)): // numbers and quantities cannot be mixed
		return term{expr: expr{"double(" + a.text + ")" + operator + "double(" + b.text + ")", bindsComparison}, shape: numberShape}, true
	case name == "modulo" && number(a) && number(b):
		return term{expr: expr{"int(" + a.text + ") % int(" + b.text + ")", bindsComparison}, shape: numberShape}, true
	case name == "divide" && !number(a) && !number(b):
		of := func(t term) string { return "quantity(string(" + t.text + ")).asApproximateFloat()" }
		return term{expr: expr{of(a) + " / " + of(b), bindsComparison}, shape: numberShape}, true
	case name == "multiply" && number(a) != number(b):
		if number(a) {
			a, b = b, a
		}
		return term{expr: member("quantity(" + thousandths("quantity(string("+a.text+")).asApproximateFloat() * double("+b.text+")") + ")"), shape: quantityShape}, true
	case name == "divide" && number(b):
		return term{expr: member("quantity(string(int(math.floor(quantity(string(" + a.text + ")).asApproximateFloat() / double(" + b.text + ")))))"), shape: quantityShape}, true
	case (name == "add" || name == "subtract") && !number(a) && !number(b):
		of := func(t term) string {
			if t.shape == quantityShape {
				return t.within(bindsMember)
			}
			return "quantity(string(" + t.text + "))"
		}
		return term{expr: member(of(a) + map[string]string{"add": ".add(", "subtract": ".sub("}[name] + of(b) + ")"), shape: quantityShape}, true
	}
	return s.unknown("the function " + name + "()")
}
