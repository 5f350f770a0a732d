package convert

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/measure"
	"ephor.invalid/ephor/internal/pattern"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// verdict holds the conditions under which a value matches a part of a pattern, or an anchor makes the pattern not applicable.
type verdict struct {
	fits expr // the value matches, or the pattern is not applicable
	off  expr // the pattern is not applicable
}

// sure returns the verdict of a part that is always applicable.
func sure(fits expr) verdict { return verdict{fits, no} }

// trail is the path to a part of a pattern; the empty name means the elements of a list. known is false if the path is unknown, as in the
// element of a filtered list.
type trail struct {
	names []string
	known bool
}

// below converts a part of a pattern below a name.
func (c *converter) below(name string, convert func()) {
	before := c.trail
	c.trail.names = append(slices.Clip(before.names), name)
	convert()
	c.trail = before
}

// isList reports whether the part of the pattern is a list in all kinds that the rule matches.
func (c *converter) isList() (list, known bool) {
	if !c.trail.known {
		return false, false
	}
	t := c.typeAt(c.ofTrail(), c.trail.names)
	return t == "list", t != ""
}

// ofTrail returns the kinds in which the trail is.
func (c *converter) ofTrail() []schema.GroupVersionKind {
	if c.inPods() {
		return c.matched[:min(1, len(c.matched))] // the Pod, which is the template in the others
	}
	return c.matched
}

// isMap reports whether a pattern is about an object, or a map with arbitrary keys, in all kinds.
func (c *converter) isMap() bool {
	t := c.typeAt(c.ofTrail(), c.trail.names)
	return c.trail.known && (t == "map" || t == "" && c.typeAt(c.ofTrail(), append(slices.Clip(c.trail.names), "x")) != "")
}

// typeAt returns the type of a field that it has in all kinds; empty if that is not known.
func (c *converter) typeAt(kinds []schema.GroupVersionKind, names []string) (t string) {
	if c.schemas.Types == nil {
		return ""
	}
	for i, k := range kinds {
		is := c.schemas.Types(k, names)
		if is == "" || i > 0 && is != t {
			return ""
		}
		t = is
	}
	return t
}

// entry is one key of a map of a pattern.
type entry struct {
	full, anchor, key string
	value             any
}

// entriesOf returns the keys of a map in the order in which a pattern evaluates them: conditions and other anchors that are evaluated
// first, then keys with nested anchors in reverse order, then the rest.
func entriesOf(m map[string]any) (first, second []entry) {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var plain []entry
	for _, full := range keys {
		e := entry{full: full, value: m[full]}
		e.anchor, e.key = pattern.Anchor(full)
		switch {
		case e.anchor == "" && !anchored(e.value):
			plain = append(plain, e)
		case e.anchor == "" || e.anchor == "<":
			second = append([]entry{e}, second...)
		default:
			first = append(first, e)
		}
	}
	return first, append(second, plain...)
}

// anchored reports whether some key below v has an anchor.
func anchored(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if a, _ := pattern.Anchor(k); a != "" || anchored(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, anchored)
	}
	return false
}

// pattern converts v, a part of the pattern, for the value at.
func (c *converter) pattern(v any, at expr, path string) verdict {
	switch v := v.(type) {
	case map[string]any:
		return c.patternMap(v, at, path)
	case []any:
		return c.patternList(v, at, path)
	}
	return sure(c.patternValue(v, at, path))
}

// patternValue converts a scalar of a pattern; if the value is a list, every element must match.
func (c *converter) patternValue(v any, at expr, path string) expr {
	if v == "?*" && c.isMap() {
		return no // of an object, only * holds
	}
	list, known := c.isList()
	if known && !list || v == "*" {
		return c.patternScalar(v, at, path)
	}
	all := at
	if !known { // the value may be a list
		all = elements(at)
	}
	x := c.variableOf(at)
	return all.macro("all", x, c.patternScalar(v, member(x), path))
}

// podOf returns the Pod in an object whose metadata is read, in rules that cover Pod controllers. For fields that templates rarely have, such as the name,
// autogen keeps the path of the controller, but the classic rule reads the template. The brackets keep autogen from changing the path.
func (c *converter) podOf(object expr, name string) expr {
	if !c.controllers || slices.Contains([]string{"labels", "annotations", "finalizers"}, name) {
		return object
	}
	o := object.text
	return member("(" + o + ".kind == 'Pod' ? " + o + " : " + o + ".kind == 'CronJob' ? " + o + "['spec'].jobTemplate.spec.template : " + o + "['spec'].template)")
}

// elements returns a list of the value, or the value if it is a list. The elements have the type dyn: otherwise the type checker would
// infer their type from the first function that is called with an element.
func elements(at expr) expr { return member("dyn([" + at.text + "].flatten())") }

func (c *converter) patternMap(m map[string]any, at expr, path string) verdict {
	first, second := entriesOf(m)
	conditions, checks := yes, yes
	idle := yes // no key of the first phase is applicable, so the other keys are not evaluated
	if len(first) == 0 {
		idle = no
	}
	for _, e := range first {
		below := path + "." + e.full
		has, value, ok := c.keyed(e.key, at, below)
		if !ok {
			continue
		}
		if e.anchor != "=" {
			idle = no
		}
		switch e.anchor {
		case "(":
			part := c.patternKey(e, value, below)
			conditions = and(conditions, has, part.fits, not(part.off))
		case "=":
			part := c.patternKey(e, value, below)
			checks = and(checks, or(not(has), part.fits))
			idle = and(idle, has, part.off)
		case "X":
			checks = and(checks, not(has))
		case "^":
			items, _ := e.value.([]any)
			for i, item := range items {
				x := c.variableOf(value)
				var part verdict
				c.below(e.key, func() { c.below("", func() { part = c.pattern(item, member(x), fmt.Sprintf("%s[%d]", below, i)) }) })
				checks = and(checks, or(not(has), value.macro("exists", x, and(part.fits, not(part.off)))))
			}
		default:
			c.refuse(below, "the anchor "+e.anchor+"() has no meaning in a validate pattern", "")
		}
	}
	// The parts are evaluated in order: the first one that does not match, or is not applicable, decides.
	fits, off := yes, no
	for _, e := range slices.Backward(second) {
		below := path + "." + e.full
		part := c.patternEntry(e, at, below)
		if part.off == no {
			fits, off = and(part.fits, fits), and(part.fits, off)
			continue
		}
		if fits != yes || off != no {
			matched := and(part.fits, not(part.off))
			fits, off = or(part.off, and(matched, fits)), or(part.off, and(matched, off))
			continue
		}
		fits, off = part.fits, part.off
	}
	return verdict{
		fits: or(not(conditions), and(checks, or(idle, fits))),
		off:  or(not(conditions), and(checks, or(idle, off))),
	}
}

// patternKey converts the value of a key.
func (c *converter) patternKey(e entry, at expr, path string) (out verdict) {
	c.below(e.key, func() { out = c.pattern(e.value, at, path) })
	return out
}

// patternEntry converts a key without an anchor or with the global anchor.
func (c *converter) patternEntry(e entry, at expr, path string) verdict {
	has, value, ok := c.keyed(e.key, at, path)
	if !ok {
		return sure(no)
	}
	if isObject(at) && e.key == "spec" && c.typeAt(c.matched, []string{"spec"}) == "map" {
		has = yes // the API server writes the spec of every object that has one
	}
	if e.key == "containers" && slices.Equal(c.trail.names, []string{"spec"}) && isObject(expr{strings.TrimSuffix(at.text, ".spec"), bindsMember}) && c.onlyPods() {
		has = yes // every Pod has containers
	}
	if e.anchor == "<" {
		part := c.patternKey(e, value, path)
		return verdict{yes, and(has, not(and(part.fits, not(part.off))))}
	}
	if e.value == "*" {
		return sure(and(has, comparison(value.text+" != null")))
	}
	part := c.patternKey(e, value, path)
	switch e.value.(type) {
	case map[string]any, []any:
		return verdict{and(has, part.fits), and(has, part.off)}
	}
	if pattern.MatchScalar(e.value, nil) { // a missing value counts as zero
		return sure(or(not(has), part.fits))
	}
	return sure(and(has, part.fits))
}

// keyed returns the condition that a map has a key of a pattern, and its value. A label or an annotation with wildcards is the first one that matches;
// elsewhere wildcards have no meaning.
func (c *converter) keyed(key string, at expr, path string) (has, value expr, ok bool) {
	switch n := c.trail.names; {
	case strings.Contains(key, "{{"):
		t, ok := c.operand(key, path)
		if !ok {
			return no, no, false
		}
		return comparison(t.within(bindsUnary) + " in " + at.within(bindsUnary)), member(at.within(bindsMember) + "[" + t.value().text + "]"), true
	case wildcard.Has(key) && len(n) > 1 && n[len(n)-2] == "metadata" && (n[len(n)-1] == "labels" || n[len(n)-1] == "annotations"):
		const x = "key"
		matches := globText(member(x), key)
		return at.macro("exists", x, matches), at.at(at.macro("filter", x, matches).text + ".min()"), true
	}
	if at.text == "object.metadata" {
		if pod := c.podOf(member("object"), key); pod.text != "object" {
			at = pod.field("metadata")
			return and(pod.has("metadata"), at.has(key)), at.field(key), true
		}
	}
	return at.has(key), at.field(key), true
}

func (c *converter) patternList(l []any, at expr, path string) verdict {
	if len(l) == 0 {
		return sure(no)
	}
	below := path + "[0]"
	x := c.variableOf(at)
	switch first := l[0].(type) {
	case map[string]any:
		var part verdict
		c.below("", func() { part = c.patternMap(first, member(x), below) })
		out := verdict{at.macro("all", x, part.fits), no}
		if part.off != no {
			out.off = and(comparison("size("+at.text+") > 0"), at.macro("all", x, part.off))
		}
		return out
	case []any:
		c.refuse(below, "a list of lists has no counterpart in CEL here", "")
		return sure(no)
	default:
		return sure(at.macro("all", x, c.patternScalar(first, member(x), below)))
	}
}

// patternScalar converts a scalar of a pattern for an existing value.
func (c *converter) patternScalar(v any, at expr, path string) expr {
	switch v := v.(type) {
	case nil:
		var zero []expr
		for _, z := range []string{"null", "false", "''", "0"} {
			zero = append(zero, comparison(at.text+" == "+z))
		}
		return or(zero...)
	case bool:
		if v {
			return comparison(at.text + " == true")
		}
		return comparison(at.text + " == false")
	case int64:
		return number(at, strconv.FormatInt(v, 10))
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return number(at, strconv.FormatInt(int64(v), 10))
		}
		return number(at, strconv.FormatFloat(v, 'f', -1, 64))
	case string:
		return c.patternText(v, at, path)
	}
	c.refuse(path, value.TypeName(v)+" is not a pattern", "")
	return no
}

// number compares a value that may be a number or the text of a number.
func number(at expr, digits string) expr {
	return or(comparison(at.text+" == "+digits), comparison(at.text+" == "+text(digits)))
}

func (c *converter) patternText(s string, at expr, path string) expr {
	switch {
	case strings.Contains(s, "{{"):
		return c.patternVariable(s, at, path)
	case s == "":
		return comparison(at.text + " == ''")
	case s == "*":
		return comparison(at.text + " != null")
	case s == "?*":
		return comparison(at.text + " != ''")
	}
	var alternatives []expr
	for _, alternative := range strings.Split(s, "|") {
		all := yes
		for _, term := range strings.Split(alternative, "&") {
			all = and(all, c.term(strings.TrimSpace(term), at, path))
		}
		alternatives = append(alternatives, all)
	}
	return or(alternatives...)
}

// term converts one comparison of the pattern language.
func (c *converter) term(s string, at expr, path string) expr {
	for _, operator := range []string{">=", "<=", ">", "<", "!"} {
		rest, ok := strings.CutPrefix(s, operator)
		if !ok || rest == "" {
			continue
		}
		rest = strings.TrimSpace(rest)
		if operator != "!" {
			return c.ordered(at, operator, rest, path)
		}
		return not(c.same(at, rest, path))
	}
	if r, ok := measure.ParseRange(s); ok {
		if r.Outside {
			return or(c.ordered(at, "<", r.Low.Text(), path), c.ordered(at, ">", r.High.Text(), path))
		}
		return and(c.ordered(at, ">=", r.Low.Text(), path), c.ordered(at, "<=", r.High.Text(), path))
	}
	return c.same(at, s, path)
}

// ordered compares a value as a quantity. It compares as a duration if the bound is a duration and no quantity.
func (c *converter) ordered(at expr, operator, bound, path string) expr {
	b := measure.NewBound(bound)
	asText := "string(" + at.text + ")"
	if _, ok := b.Quantity(); ok {
		if _, both := b.Duration(); both && !wholeNumber().MatchString(bound) && !amounts().MatchString(path) {
			c.note(path, fmt.Sprintf("%q is a quantity and a duration: it is compared as a quantity", bound), "")
		}
		return and(member("isQuantity("+asText+")"), comparison("quantity("+asText+").compareTo(quantity("+text(bound)+")) "+operator+" 0"))
	}
	if d, ok := b.Duration(); ok { // a number is no duration
		return and(member(asText+".matches("+text(durations)+")"), comparison("duration("+asText+") "+operator+" duration("+text(d.String())+")"))
	}
	c.refuse(path, fmt.Sprintf("%q is neither a quantity nor a duration", bound), "")
	return no
}

// amounts matches the paths of values that are quantities, and no durations.
var amounts = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\.[=+<(]*(limits|requests|capacity|hard|min|max|default|defaultRequest)\)?\.[^.]+$`)
})

// durations matches the texts of durations.
const durations = `^[-+]?([0-9]+([.][0-9]*)?(ns|us|ms|s|m|h))+$`

var (
	wholeNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+$`) })
	letters     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z]`) })
)

// same compares a value for equality: as a quantity if the text is one, otherwise as text with wildcards.
func (c *converter) same(at expr, s, path string) expr {
	b := measure.NewBound(s)
	switch {
	case wholeNumber().MatchString(s):
		return number(at, s)
	case b.Valid():
		return c.ordered(at, "==", s, path)
	case s == "true" || s == "false":
		return or(comparison(at.text+" == "+s), comparison(at.text+" == "+text(s)))
	}
	return glob(at, s)
}

// glob compares text with wildcards. If the pattern has no letters, the value may be a number, which is compared as text.
func glob(at expr, s string) expr {
	if !wildcard.Has(s) {
		return comparison(at.text + " == " + text(s))
	}
	if !letters().MatchString(s) {
		at = member("string(" + at.text + ")")
	}
	bare := strings.Trim(s, "*")
	if strings.HasPrefix(at.text, "(") && strings.HasSuffix(at.text, ")") && strings.Contains(at.text, " ? dyn(") { // of any type
		at = member("string" + at.text)
	}
	if !wildcard.Has(bare) && bare != "" {
		of := at.within(bindsMember)
		switch open, end := strings.HasPrefix(s, "*"), strings.HasSuffix(s, "*"); {
		case open && end:
			return member(of + ".contains(" + text(bare) + ")")
		case open:
			return member(of + ".endsWith(" + text(bare) + ")")
		default:
			return member(of + ".startsWith(" + text(bare) + ")")
		}
	}
	return member(at.within(bindsMember) + ".matches(" + text(expression(s)) + ")")
}

// expression returns a wildcard as a regular expression.
func expression(s string) string {
	var b strings.Builder
	b.WriteString("^(?s)")
	for _, r := range s {
		switch r {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	b.WriteString("$")
	return b.String()
}
