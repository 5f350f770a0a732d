package decision

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/jsonpointer"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Redaction selects the values of objects that are replaced by Redacted before a record is made. The nil Redaction selects none; the values
// of Secrets are replaced in any case.
type Redaction struct{ pointers [][]string }

// DefaultRedaction selects the values of environment variables, in every list named env.
var DefaultRedaction = []string{"/**/env/*/value"}

// Limits of a Redaction.
const (
	maxPointers = 100
	maxTokens   = 32
)

// ParseRedaction parses JSON pointers into objects. The token * matches every item of a list or member of an object; ** matches any number of
// levels.
func ParseRedaction(pointers []string) (*Redaction, error) {
	if len(pointers) > maxPointers {
		return nil, fmt.Errorf("there are %d JSON pointers; the maximum is %d", len(pointers), maxPointers)
	}
	out := &Redaction{}
	for _, text := range pointers {
		rest, ok := strings.CutPrefix(text, "/")
		tokens := strings.Split(rest, "/")
		switch {
		case !ok || rest == "":
			return nil, fmt.Errorf("%q is not a JSON pointer to a value, such as /spec/containers/*/env/*/value", text)
		case len(tokens) > maxTokens:
			return nil, fmt.Errorf("%q has more than %d tokens", text, maxTokens)
		case tokens[len(tokens)-1] == "**":
			return nil, fmt.Errorf("%q ends with **, which would replace everything", text)
		}
		for i, t := range tokens {
			if t == "**" && tokens[i+1] == "**" {
				return nil, fmt.Errorf("%q has ** twice in a row", text)
			}
			tokens[i] = jsonpointer.Unescape(t)
		}
		out.pointers = append(out.pointers, tokens)
	}
	return out, nil
}

// secretPointers selects the values of a Secret.
var secretPointers = [][]string{{"data", "*"}, {"stringData", "*"}}

// of returns the pointers for an object; secret means that it is a Secret.
func (r *Redaction) of(secret bool) (out [][]string) {
	if r != nil {
		out = slices.Clip(r.pointers)
	}
	if secret {
		out = append(out, secretPointers...)
	}
	if len(out) > 0 {
		out = append(out, copyPointer)
	}
	return out
}

// isSecret reports whether the request is for a Secret.
func isSecret(req *policy.Request) bool {
	return req.GVR.Group == "" && req.GVR.Resource == "secrets"
}

// lastApplied is the annotation in which kubectl keeps a copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// copyPointer leads to that copy, from which the same values are cut as from the object.
var copyPointer = []string{"metadata", "annotations", lastApplied}

// pointerMatch is the progress of matching a pointer: the tokens before at match.
type pointerMatch struct{ pointer, at int }

// cutter copies one JSON text without the values that pointers name.
type cutter struct {
	pointers [][]string // the last is copyPointer
	in       *value.Reader
	out      []byte
	prefix   string
	path     []string // of the current value, with * for the items of lists
	// cut has the paths of the replaced values, each once; values has their texts.
	cut    []string
	known  map[string]bool // of cut
	values []string
}

// cut returns the text without the values that the pointers name, the paths at which values were replaced, and these values. A path begins
// with the prefix, and has * for items of lists.
func cut(text, prefix string, pointers [][]string) (out string, paths, values []string, err error) {
	c := &cutter{pointers: pointers, in: value.NewReader(text), out: make([]byte, 0, len(text)), prefix: prefix}
	at := make([]pointerMatch, len(pointers))
	for i := range pointers {
		at[i] = pointerMatch{pointer: i}
	}
	if err := c.value(at); err != nil {
		return "", nil, nil, err
	}
	if err := c.in.End(); err != nil {
		return "", nil, nil, err
	}
	return string(c.out), c.cut, c.values, nil
}

// value copies the next value. If at is not empty, pointers may select parts of it.
func (c *cutter) value(at []pointerMatch) error {
	first, err := c.in.Next()
	if err != nil {
		return err
	}
	if len(at) == 0 || first != '{' && first != '[' {
		raw, err := c.in.Raw()
		c.out = append(c.out, raw...)
		return err
	}
	c.out = append(c.out, first)
	n := 0
	comma := func() {
		if n > 0 {
			c.out = append(c.out, ',')
		}
		n++
	}
	if first == '[' {
		err = c.in.Array(func(i int) error {
			comma()
			return c.below(at, strconv.Itoa(i), "*")
		})
		c.out = append(c.out, ']')
		return err
	}
	err = c.in.Object(func(key string) error {
		comma()
		c.out = append(value.AppendString(c.out, key), ':')
		return c.below(at, key, key)
	})
	c.out = append(c.out, '}')
	return err
}

// below copies a member or an item; shown is its token in paths.
func (c *cutter) below(at []pointerMatch, key, shown string) error {
	var room [8]pointerMatch
	next := room[:0]
	replaced, every, copied := false, false, false
	for _, p := range at {
		tokens := c.pointers[p.pointer]
		if tokens[p.at] == "**" {
			next = add(next, p)
			p.at++
		}
		switch {
		case tokens[p.at] != "*" && tokens[p.at] != key:
		case p.at+1 == len(tokens) && p.pointer == len(c.pointers)-1:
			copied = true
		case p.at+1 == len(tokens):
			replaced, every = true, every || tokens[p.at] == "*"
		default:
			next = add(next, pointerMatch{p.pointer, p.at + 1})
		}
	}
	if every {
		shown = "*"
	}
	c.path = append(c.path, shown)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	switch {
	case replaced:
		return c.replace()
	case copied:
		return c.copyOfObject()
	}
	return c.value(next)
}

func add(list []pointerMatch, p pointerMatch) []pointerMatch {
	if slices.Contains(list, p) {
		return list
	}
	return append(list, p)
}

// replace writes Redacted instead of the next value, and keeps the texts in that value.
func (c *cutter) replace() error {
	v, err := c.in.Any()
	if err != nil {
		return err
	}
	if v == nil { // there is nothing to hide
		c.out = append(c.out, "null"...)
		return nil
	}
	c.values = texts(v, c.values)
	c.recordCut()
	c.out = append(c.out, `"`+Redacted+`"`...)
	return nil
}

// recordCut adds the path of the value to the replaced paths.
func (c *cutter) recordCut() {
	path := c.prefix
	for _, t := range c.path {
		path += "/" + jsonpointer.Escape(t)
	}
	if c.known == nil {
		c.known = map[string]bool{}
	}
	if !c.known[path] {
		c.known[path], c.cut = true, append(c.cut, path)
	}
}

// copyOfObject copies the annotation of kubectl, which is the text of an object, without the same values. A text that is not an object is
// replaced as a whole.
func (c *cutter) copyOfObject() error {
	raw, err := c.in.Raw()
	if err != nil {
		return err
	}
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil {
		text = raw
	}
	without, paths, values, err := cut(text, "", c.pointers)
	switch {
	case err != nil:
		c.recordCut()
		c.values = append(c.values, text)
		c.out = append(c.out, `"`+Redacted+`"`...)
	case len(paths) > 0:
		c.recordCut()
		c.values = append(c.values, values...)
		c.out = value.AppendJSON(c.out, without)
	default:
		c.out = append(c.out, raw...)
	}
	return nil
}

// texts appends all strings and numbers of a value to out.
func texts(v any, out []string) []string {
	switch x := v.(type) {
	case string:
		if x != "" {
			out = append(out, strings.Clone(x))
		}
	case []any:
		for _, e := range x {
			out = texts(e, out)
		}
	case map[string]any:
		for _, e := range x {
			out = texts(e, out)
		}
	case nil, bool: // many texts contain true
	default:
		out = append(out, value.JSON(x))
	}
	return out
}
