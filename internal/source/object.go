package source

import (
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/value"
)

// Object is one object that was read, with its position.
type Object struct {
	Value map[string]any
	File  string
	Line  int // first line of the document that contains the object
	// Among: the object was found in a directory or a git repository, which may contain all kinds of objects.
	Among bool
	// Pos returns the position of a field path such as spec.rules[0].match, or that of the nearest parent if the object does not have
	// the field. It parses the document again, so use it for mistakes, not for every object.
	Pos func(path string) diag.Position
}

// Kind returns the object's kind; empty if it has none.
func (o Object) Kind() string { s, _ := o.Value["kind"].(string); return s }

// Name returns metadata.name; empty if there is none.
func (o Object) Name() string {
	m, _ := o.Value["metadata"].(map[string]any)
	s, _ := m["name"].(string)
	return s
}

// Misnamed warns of a name or namespace that is no text, such as n, 123 or 1e3 without quotation marks: the object would have none.
func (o Object) Misnamed() (diags diag.List) {
	m, _ := o.Value["metadata"].(map[string]any)
	for _, key := range []string{"name", "generateName", "namespace"} {
		if _, isText := m[key].(string); m[key] != nil && !isText {
			path := "metadata." + key
			diags.Add(diag.Diagnostic{
				Severity: diag.Warning, Pos: o.Pos(path), Path: path, Summary: "expected a text, found " + describe(m[key]) + ": the API server refuses the object", Hint: "put the value in quotes",
			})
		}
	}
	return diags
}

// Decode decodes the document's objects: one, or the items of a List. Mistakes are errors with positions; warnings (a duplicate key) are
// returned together with the objects.
func (d Document) Decode(n Numbers) ([]Object, diag.List) {
	v, diags := d.Value(n)
	if diags.HasErrors() {
		return nil, diags
	}
	objects, moreDiags := d.objects(v)
	return objects, append(diags, moreDiags...)
}

// Value decodes the document as one JSON value.
func (d Document) Value(n Numbers) (any, diag.List) {
	if t := d.jsonText(); t != "" {
		if v, unique, err := value.DecodeUnique(t, n == Floats); err == nil && unique {
			return v, nil
		}
		// Invalid JSON may still be YAML in flow style. If it is not, and if a key is given twice, the parser below finds the line.
	}
	root, err := nodes(d.text)
	if err != nil {
		return nil, d.unrendered(diag.List{d.yamlMistake(err)})
	}
	if root == nil {
		return nil, nil
	}
	b := &builder{numbers: n, file: d.File, base: d.base}
	v, err := b.build(root, 0)
	if err != nil {
		l, ok := err.(diag.List)
		if !ok {
			l = diag.List{{Pos: d.pos(), Summary: err.Error()}}
		}
		return nil, d.unrendered(append(b.diags, l...))
	}
	return v, b.diags
}

// jsonText returns the document's text without its marker line if it looks like JSON, otherwise "".
func (d Document) jsonText() string {
	if d.json {
		return d.text
	}
	t := d.text
	if isMarker(t, "---") {
		_, t, _ = strings.Cut(t, "\n")
	}
	if firstByte(t) == '{' {
		return t
	}
	return ""
}

// Positions returns a function that gives the position of a field path in a document that is one object (not a List). The document is
// parsed once, at the first call.
func (d Document) Positions() func(path string) diag.Position { return (&positions{doc: d}).at }

func (d Document) pos() diag.Position { return diag.Position{File: d.File, Line: d.Line} }

// objects returns the objects in a decoded document, splitting Lists.
func (d Document) objects(v any) ([]Object, diag.List) {
	if v == nil {
		return nil, nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		hint := "begin the document with apiVersion and kind"
		if _, list := v.([]any); list {
			hint = "separate the objects by `---` or put them into a List (kind: List, items: …)"
		}
		return nil, diag.List{{Pos: d.pos(), Summary: "this is not a Kubernetes object but " + describe(v), Hint: hint}}
	}
	return d.expand(m, "", nil)
}

// expand appends the object, or the items if it is a List (including a List of Lists).
func (d Document) expand(m map[string]any, path string, out []Object) ([]Object, diag.List) {
	p := &positions{doc: d, path: path}
	o := Object{Value: m, File: d.File, Line: d.Line, Pos: p.at}
	kind, _ := m["kind"].(string)
	apiVersion, _ := m["apiVersion"].(string)
	if kind == "" || apiVersion == "" {
		missing := "Kind"
		if kind != "" {
			missing = "apiVersion"
		}
		mistake := diag.Diagnostic{Pos: o.Pos(""), Summary: fmt.Sprintf("Object '%s' is missing", missing), Hint: "every object begins with apiVersion and kind"}
		if kind == "" && m["metadata"] == nil && m["spec"] == nil {
			mistake.Code = diag.NotAnObject
		}
		return out, diag.List{mistake}
	}
	items, isList := m["items"].([]any)
	if kind == "List" && apiVersion == "v1" && !isList {
		if given, has := m["items"]; !has || given != nil {
			return out, diag.List{{Pos: o.Pos("items"), Summary: "a List has its objects in the list items, and this one has none", Hint: "write them below `items:`, each after a dash"}}
		}
	}
	if !strings.HasSuffix(kind, "List") || !isList && !(kind == "List" && apiVersion == "v1") {
		return append(out, o), nil
	}
	var diags diag.List
	for i, item := range items {
		at := fmt.Sprintf("items[%d]", i)
		if path != "" {
			at = path + "." + at
		}
		im, ok := item.(map[string]any)
		if !ok {
			diags.Add(diag.Diagnostic{Pos: (&positions{doc: d}).at(at), Summary: "this item of the " + kind + " is not an object but " + describe(item)})
			continue
		}
		// The items of a PodList need not repeat the kind of the list.
		if _, has := im["kind"]; !has && kind != "List" {
			c := make(map[string]any, len(im)+2)
			for k, v := range im {
				c[k] = v
			}
			c["kind"], c["apiVersion"] = strings.TrimSuffix(kind, "List"), apiVersion
			im = c
		}
		var moreDiags diag.List
		out, moreDiags = d.expand(im, at, out)
		diags.Add(moreDiags...)
	}
	return out, diags
}

func describe(v any) string {
	switch v.(type) {
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	case string:
		return "a text"
	case bool:
		return "a boolean"
	case nil:
		return "empty"
	}
	return "a number"
}
