package template

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/budget"
)

// Document defines how the text of a document is decoded.
type Document struct {
	Options
	// Decode decodes YAML or JSON. Numbers may be int64 or float64.
	Decode func(text string) (any, error)
	// Scalar reports whether only a scalar is allowed at a place, given by the keys (string) and indexes (int) from the root.
	Scalar func(at []any) bool
}

// CompileDocument compiles the text of a YAML or JSON document that contains variables. It decodes the text now, and Eval
// puts the values of the variables into the tree, so no value can add anything to the document or change its structure.
//
// A value of the document that is exactly one bare variable, without quotes, becomes the value of the variable, of any type.
// Every other variable becomes a part of the text around it; in keys, and where Scalar returns true, lists and maps are an
// error. Error paths are those of the document as a whole (Options.Path).
//
// The error means that the text cannot be decoded. A malformed variable is not an error here, see Compile.
func CompileDocument(text string, d Document) (*Template, error) {
	at := position{path: d.Path}
	c := &compiler{t: &Template{static: text}, seen: map[string]bool{}, allowance: d.Allowance}
	variables := outermost(text)
	if len(variables) == 0 {
		v, err := d.Decode(text)
		if err != nil {
			return nil, err
		}
		c.t.static = v
		return c.t, nil
	}
	b := &document{compiler: c, in: d, at: at, source: text, variables: variables}
	tree, err := b.decode()
	if err != nil {
		return nil, err
	}
	c.t.root, err = b.value(tree, nil)
	if err != nil {
		return nil, err
	}
	if c.t.root == nil { // all variables were in comments
		c.t.static = tree
	}
	slices.Sort(c.t.roots)
	return c.t, nil
}

// document is a document that is being compiled. While it is decoded, a mark stands for each of its variables.
type document struct {
	*compiler
	in        Document
	at        position
	source    string
	variables []outer
	mark      string // the beginning of the marks; it does not occur in the source
	bare      []bool // for each variable: it is alone and without quotes
}

// decode decodes the document twice: first with numbers for the variables, which shows those without quotes, then with texts.
func (d *document) decode() (any, error) {
	const base = 7_000_000_000_000_000 // 16 digits, which a float64 represents exactly
	counted, err := d.in.Decode(d.filled(func(i int) string { return strconv.Itoa(base + i) }))
	if err != nil {
		return nil, err
	}
	d.bare = make([]bool, len(d.variables))
	visit(counted, func(v any) {
		n := int64(0)
		switch v := v.(type) {
		case int64:
			n = v
		case float64:
			n = int64(v)
		}
		if i := n - base; i >= 0 && i < int64(len(d.bare)) {
			d.bare[i] = d.alone(d.variables[i])
		}
	})
	d.mark = "VAR"
	for strings.Contains(d.source, d.mark) {
		d.mark += "X"
	}
	return d.in.Decode(d.filled(func(i int) string {
		text := d.mark + strconv.Itoa(i) + "E"
		if d.bare[i] {
			return `"` + text + `"`
		}
		return text
	}))
}

// filled returns the source with a stand-in for each variable.
func (d *document) filled(standIn func(i int) string) string {
	var b strings.Builder
	rest := 0
	for i, v := range d.variables {
		b.WriteString(d.source[rest:v.from])
		b.WriteString(standIn(i))
		rest = v.to
	}
	b.WriteString(d.source[rest:])
	return b.String()
}

// alone reports whether there are only separators around the variable: +1 is a number, too.
func (d *document) alone(v outer) bool {
	return !v.escape &&
		(v.from == 0 || strings.IndexByte(" \t\r\n:,[{", d.source[v.from-1]) >= 0) &&
		(v.to == len(d.source) || strings.IndexByte(" \t\r\n,]}", d.source[v.to]) >= 0)
}

// visit calls f for every value below v, and for v itself.
func visit(v any, f func(any)) {
	f(v)
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			visit(e, f)
		}
	case []any:
		for _, e := range v {
			visit(e, f)
		}
	}
}

// value compiles a part of the decoded document; the result is nil if it has no variables.
func (d *document) value(v any, at []any) (node, error) {
	if len(at) > budget.MaxDepth {
		return nil, errTooDeep
	}
	switch v := v.(type) {
	case string:
		if i, ok := d.whole(v); ok && d.bare[i] {
			s := d.variables[i]
			n := d.text(d.source[s.from:s.to], d.at)
			if _, simple := n.(*variable); !simple {
				n = nullable{n}
			}
			return n, nil
		}
		return d.joined(v, d.in.Scalar != nil && d.in.Scalar(at)), nil
	case map[string]any:
		o := &object{source: v}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			key := d.joined(k, true)
			val, err := d.value(v[k], append(slices.Clip(at), k))
			if err != nil {
				return nil, err
			}
			if key != nil || val != nil {
				o.members = append(o.members, member{name: k, key: key, val: val})
			}
		}
		if len(o.members) > 0 {
			return o, nil
		}
	case []any:
		l := &list{source: v}
		for i, e := range v {
			n, err := d.value(e, append(slices.Clip(at), i))
			if err != nil {
				return nil, err
			}
			if n != nil {
				l.items = append(l.items, item{i, n})
			}
		}
		if len(l.items) > 0 {
			return l, nil
		}
	}
	return nil, nil
}

// whole returns the number of the variable whose mark is the text.
func (d *document) whole(s string) (int, bool) {
	before, i, after, ok := d.next(s)
	return i, ok && before == "" && after == ""
}

// next splits s at its first mark.
func (d *document) next(s string) (before string, i int, after string, ok bool) {
	before, rest, ok := strings.Cut(s, d.mark)
	if !ok {
		return s, 0, "", false
	}
	number, after, ok := strings.Cut(rest, "E")
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i < 0 || i >= len(d.variables) {
		return s, 0, "", false
	}
	return before, i, after, true
}

// joined compiles a text with marks; nil if it has none.
func (d *document) joined(s string, scalar bool) node {
	if _, _, _, ok := d.next(s); !ok {
		return nil
	}
	j := &joined{scalar: scalar}
	for {
		before, i, after, ok := d.next(s)
		if before != "" {
			j.pieces = append(j.pieces, piece{literal: before})
		}
		if !ok {
			break
		}
		v := d.variables[i]
		if v.escape {
			j.pieces = append(j.pieces, piece{literal: d.source[v.from+1 : v.to]})
		} else {
			j.pieces = append(j.pieces, piece{node: d.text(d.source[v.from:v.to], d.at)})
		}
		s = after
	}
	return j
}

// nullable is a bare variable that contains others. If an inner variable is null, it becomes the text null within the
// expression, and if the result is still that text, it means null: {{ replace_all('{{ element.host }}', 'old', 'new') }}.
type nullable struct{ node }

func (n nullable) eval(r run) (any, error) {
	v, err := n.node.eval(r)
	if v == "null" {
		v = nil
	}
	return v, err
}

// ScalarError is the error for a map or a list in a place where only a scalar is allowed.
type ScalarError struct{ Kind string }

func (e *ScalarError) Error() string {
	return fmt.Sprintf("a %s stands in a text: only a text, a number, a boolean or null can", e.Kind)
}
