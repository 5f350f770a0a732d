package generating

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
)

// Limits of a template. Typical templates have some hundred nodes, and aliases multiply them.
const (
	maxNodes   = 100_000
	maxNesting = 100
)

// compiler compiles one template.
type compiler struct {
	// expression compiles a placeholder; it is nil if placeholders are plain text.
	expression func(string) (*run.Expression, error)
	mistakes   []error
	nodes      int
}

// compileTemplate compiles a template and returns all its mistakes. Use the template only if there are none. If expression is nil,
// placeholders are taken literally.
func compileTemplate(source string, expression func(string) (*run.Expression, error)) (template, []error) {
	c := &compiler{expression: expression}
	var out template
	for d := yaml.NewDecoder(strings.NewReader(source)); ; {
		var document yaml.Node
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, append(c.mistakes, fmt.Errorf("failed to parse YAML: %w", err))
		}
		root := resolved(&document)
		switch {
		case root == nil || isNull(root):
			continue
		case root.Kind != yaml.MappingNode:
			c.mistake(root, "document must be a mapping describing a resource")
			continue
		}
		out = append(out, c.node(root, 0))
	}
	if len(out) == 0 && len(c.mistakes) == 0 {
		c.mistakes = append(c.mistakes, errors.New("template must contain at least one YAML document"))
	}
	return out, c.mistakes
}

// resolved returns the content of a document or the target of an alias.
func resolved(n *yaml.Node) *yaml.Node {
	for n != nil {
		switch n.Kind {
		case yaml.DocumentNode:
			if len(n.Content) == 0 {
				return nil
			}
			n = n.Content[0]
		case yaml.AliasNode:
			n = n.Alias
		default:
			return n
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (c *compiler) mistake(n *yaml.Node, format string, args ...any) node {
	c.mistakes = append(c.mistakes, fmt.Errorf("line %d: "+format, append([]any{n.Line}, args...)...))
	return literal{}
}

func (c *compiler) node(n *yaml.Node, depth int) node {
	if n = resolved(n); n == nil {
		return literal{}
	}
	switch c.nodes++; {
	case c.nodes > maxNodes+1:
		return literal{} // the mistake is already reported
	case c.nodes > maxNodes:
		return c.mistake(n, "the template has more than %d nodes, including those that aliases repeat", maxNodes)
	case depth > maxNesting:
		c.nodes = maxNodes + 1
		return c.mistake(n, "the template has more than %d levels", maxNesting)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return c.mapping(n, depth)
	case yaml.SequenceNode:
		return c.sequence(n, depth)
	}
	return c.scalar(n)
}

func (c *compiler) sequence(n *yaml.Node, depth int) node {
	out, values := make(sequence, len(n.Content)), make([]any, len(n.Content))
	literals := true
	for i, e := range n.Content {
		out[i] = c.node(e, depth+1)
		if l, ok := out[i].(literal); ok {
			values[i] = l.value
		} else {
			literals = false
		}
	}
	if literals {
		return literal{values}
	}
	return out
}

func (c *compiler) mapping(n *yaml.Node, depth int) node {
	fields := make(mapping, 0, len(n.Content)/2)
	known := map[string]bool{}
	add := func(name string, v node) {
		known[name] = true
		fields = append(fields, field{name, v})
	}
	var merge []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, of := resolved(n.Content[i]), n.Content[i+1]
		switch {
		case key == nil || key.Kind != yaml.ScalarNode:
			c.mistake(n.Content[i], "a key of a mapping must be a scalar")
		case key.ShortTag() == "!!merge":
			merge = append(merge, of)
		case c.expression != nil && strings.Contains(key.Value, opening):
			c.mistake(key, "placeholders are not supported in mapping keys; write the key, or make the mapping with a placeholder")
		default:
			if known[key.Value] {
				c.mistake(key, "mapping key %q is already defined", key.Value)
				continue
			}
			add(key.Value, c.node(of, depth+1))
		}
	}
	if !isLiteral(fields) {
		for _, of := range merge {
			c.mistake(of, "%s", textMerge)
		}
		return fields
	}
	for _, of := range merge {
		for name, v := range c.merged(of, depth) {
			if !known[name] { // keys of the mapping itself take precedence
				add(name, literal{v})
			}
		}
	}
	values := make(map[string]any, len(fields))
	for _, f := range fields {
		values[f.name] = f.value.(literal).value
	}
	return literal{values}
}

const textMerge = "YAML merge keys are not supported beside placeholders"

// merged returns the fields of a merge key; earlier mappings take precedence.
func (c *compiler) merged(of *yaml.Node, depth int) map[string]any {
	sources := []*yaml.Node{of}
	if r := resolved(of); r != nil && r.Kind == yaml.SequenceNode {
		sources = r.Content
	}
	out := map[string]any{}
	for _, s := range sources {
		l, ok := c.node(s, depth+1).(literal)
		if !ok {
			c.mistake(of, "%s", textMerge)
			continue
		}
		fields, ok := l.value.(map[string]any)
		if !ok {
			c.mistake(of, "a merge key takes a mapping, or a list of mappings")
		}
		for name, v := range fields {
			if _, have := out[name]; !have {
				out[name] = v
			}
		}
	}
	return out
}

func isLiteral(fields mapping) bool {
	for _, f := range fields {
		if _, ok := f.value.(literal); !ok {
			return false
		}
	}
	return true
}

func (c *compiler) scalar(n *yaml.Node) node {
	if n.ShortTag() == "!!str" {
		if c.expression == nil || !strings.Contains(n.Value, opening) {
			return literal{n.Value}
		}
		return c.interpolated(n)
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return c.mistake(n, "%v", err)
	}
	switch x := v.(type) {
	case int:
		return literal{int64(x)}
	case uint64:
		return literal{float64(x)}
	case time.Time:
		return literal{n.Value} // JSON has no type for times
	}
	return literal{v}
}

// opening marks the start of a placeholder; escaped is its escaped form.
const (
	opening = "(("
	escaped = `\((`
)

// interpolated splits a scalar into text and placeholders.
func (c *compiler) interpolated(n *yaml.Node) node {
	var out text
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			out = append(out, piece{literal: plain.String()})
			plain.Reset()
		}
	}
	for at := 0; at < len(n.Value); {
		rest := n.Value[at:]
		switch {
		case strings.HasPrefix(rest, escaped):
			plain.WriteString(opening)
			at += len(escaped)
		case strings.HasPrefix(rest, opening):
			end := closingOf(n.Value, at+len(opening))
			if end < 0 {
				return c.mistake(n, "placeholder %q is not closed: it ends with ))", abbreviated(rest))
			}
			source := strings.TrimSpace(n.Value[at+len(opening) : end])
			x, err := c.expression(source)
			if err != nil {
				c.mistake(n, "invalid placeholder expression %q: %w", source, err)
			}
			flush()
			out = append(out, piece{placeholder: placeholder{source, x}})
			at = end + 2
		default:
			plain.WriteByte(rest[0])
			at++
		}
	}
	flush()
	switch {
	case len(out) == 1 && out[0].source != "":
		return out[0].placeholder
	case len(out) == 1:
		return literal{out[0].literal}
	}
	return out
}

// closingOf returns the end of the placeholder whose expression begins at this position, or -1 if there is no end.
func closingOf(s string, at int) int {
	depth := 0
	for at < len(s) {
		switch {
		case s[at] == '(':
			depth++
		case s[at] == ')' && depth > 0:
			depth--
		case s[at] == ')':
			if strings.HasPrefix(s[at:], "))") {
				return at
			}
			return -1
		}
		at = typecheck.SkipToken(s, at)
	}
	return -1
}

func abbreviated(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
