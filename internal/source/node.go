package source

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/diag"
)

// maxExpanded bounds the size to which aliases may expand a document. Aliased values are shared and cost no memory here, but a walk
// over the result visits every occurrence.
const maxExpanded = 1_000_000

// nodes parses one document with the complete parser.
func nodes(text string) (*yaml.Node, error) {
	var root yaml.Node
	if err := unmarshal(text, &root); err != nil {
		return nil, err
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) == 0 {
		return nil, nil // only comments
	}
	return root.Content[0], nil
}

// unmarshal recovers from a panic of the parser, in case it still has such a bug.
func unmarshal(text string, root *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	return yaml.Unmarshal([]byte(text), root)
}

// builder builds a value from a node tree.
type builder struct {
	numbers Numbers
	file    string
	base    int // the line before the document's first
	diags   diag.List
	shared  map[*yaml.Node]sharedValue
	active  map[*yaml.Node]bool
	size    int // number of nodes in the document with its aliases expanded
	aliased int // how many of these came from aliases
}

type sharedValue struct {
	v    any
	size int
}

func (b *builder) at(n *yaml.Node) diag.Position {
	return diag.Position{File: b.file, Line: b.base + n.Line, Column: n.Column}
}

func (b *builder) errorf(n *yaml.Node, hint, format string, args ...any) error {
	return diag.List{{Pos: b.at(n), Summary: fmt.Sprintf(format, args...), Hint: hint}}
}

func (b *builder) build(n *yaml.Node, depth int) (any, error) {
	if depth > budget.MaxDepth {
		return nil, b.errorf(n, "", "nested more than %d levels deep", budget.MaxDepth)
	}
	b.size++
	switch n.Kind {
	case yaml.ScalarNode:
		return b.scalar(n)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			v, err := b.build(c, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case yaml.MappingNode:
		return b.mapping(n, depth)
	case yaml.AliasNode:
		return b.alias(n, depth)
	}
	return nil, b.errorf(n, "", "unexpected YAML node")
}

func (b *builder) scalar(n *yaml.Node) (any, error) {
	v, err := b.resolve(n)
	if err == nil {
		v, err = b.numbers.convert(v)
	}
	if err != nil {
		return nil, b.errorf(n, "", "%s", err)
	}
	return v, nil
}

// resolve resolves a scalar by the rules of YAML 1.1; it ignores the parser's own guess, which follows YAML 1.2.
func (b *builder) resolve(n *yaml.Node) (any, error) {
	if n.Style&yaml.TaggedStyle != 0 {
		return tagged(n.ShortTag(), n.Value)
	}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return n.Value, nil
	}
	return plain(n.Value), nil
}

func (b *builder) alias(n *yaml.Node, depth int) (any, error) {
	target := n.Alias
	if s, ok := b.shared[target]; ok {
		b.size += s.size
		return s.v, b.expand(n, s.size)
	}
	if b.active[target] {
		return nil, b.errorf(n, "", "anchor '%s' value contains itself", n.Value)
	}
	if b.active == nil {
		b.active = map[*yaml.Node]bool{}
		b.shared = map[*yaml.Node]sharedValue{}
	}
	b.active[target] = true
	before := b.size
	v, err := b.build(target, depth+1)
	delete(b.active, target)
	if err != nil {
		return nil, err
	}
	s := sharedValue{v, b.size - before}
	b.shared[target] = s
	return v, b.expand(n, s.size)
}

// expand counts the nodes for which an alias stands.
func (b *builder) expand(n *yaml.Node, size int) error {
	if b.aliased += size; b.aliased > maxExpanded {
		return b.errorf(n, "write the repeated parts out or shorten them", "document contains excessive aliasing")
	}
	return nil
}

func (b *builder) mapping(n *yaml.Node, depth int) (any, error) {
	if n.Anchor != "" { // so that an alias inside its own anchor is detected
		if b.active == nil {
			b.active = map[*yaml.Node]bool{}
			b.shared = map[*yaml.Node]sharedValue{}
		}
		if !b.active[n] {
			b.active[n] = true
			defer delete(b.active, n)
		}
	}
	out := make(map[string]any, len(n.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		kn, vn := n.Content[i], n.Content[i+1]
		if isMerge(kn) {
			merges = append(merges, vn)
			continue
		}
		k, err := b.key(kn)
		if err != nil {
			return nil, err
		}
		v, err := b.build(vn, depth+1)
		if err != nil {
			return nil, err
		}
		if before, twice := out[k]; twice {
			d := diag.Diagnostic{
				Severity: diag.Warning, Pos: b.at(kn),
				Summary: fmt.Sprintf("the key %q is given twice in one mapping", k), Hint: "the last one counts; remove the other",
			}
			if _, isList := before.([]any); isList { // such as rules: the items of the first one would be lost
				d.Severity, d.Hint = diag.Error, "write the items as one list"
			}
			b.diags.Add(d)
		}
		out[k] = v
	}
	for _, m := range merges {
		if err := b.merge(out, m, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// bareVariable returns the text of a variable that was written without quotes as a value: in YAML, {{ x }} is a mapping whose only key
// is the mapping with the only key x.
func bareVariable(key *yaml.Node) (string, bool) {
	if key.Kind != yaml.MappingNode || key.Style&yaml.FlowStyle == 0 || len(key.Content) != 2 {
		return "", false
	}
	name, value := key.Content[0], key.Content[1]
	return name.Value, name.Kind == yaml.ScalarNode && value.Kind == yaml.ScalarNode && value.Tag == "!!null" && value.Value == ""
}

func (b *builder) key(n *yaml.Node) (string, error) {
	t := n
	if t.Kind == yaml.AliasNode {
		t = t.Alias
	}
	if name, ok := bareVariable(t); ok {
		return "", b.errorf(n, `quote it: "{{ `+name+` }}"`, "{{ %s }} without quotes is not text in YAML, but a mapping whose key is a mapping", name)
	}
	if t.Kind != yaml.ScalarNode {
		return "", b.errorf(n, "quote a key that begins with { or [", "a key of a mapping must be text, a number or a boolean")
	}
	v, err := b.resolve(t)
	if err != nil {
		return "", b.errorf(n, "", "%s", err)
	}
	k, err := key(v)
	if err != nil {
		return "", b.errorf(n, "write the key before the colon", "%s", err)
	}
	return k, nil
}

func isMerge(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "<<" && n.Style == 0
}

// merge adds the keys from `<<:` that the mapping itself does not have; earlier sources take precedence.
func (b *builder) merge(out map[string]any, n *yaml.Node, depth int) error {
	v, err := b.build(n, depth+1)
	if err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			return b.errorf(n, "", "map merge requires map or sequence of maps as the value")
		}
		for k, x := range m {
			if _, own := out[k]; !own {
				out[k] = x
			}
		}
	}
	return nil
}
