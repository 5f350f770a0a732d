// Package values parses the chart's values.yaml with its comments, and generates the schema and the documentation from it.
//
//	v, err := values.Parse(text)
//	schema, err := v.Schema("ephor")
//
// The comment above a key describes it. Its last line may begin with "@" and give the type, if the default does not show it
// or more is allowed: string, int, bool, map, list, any, enum(a,b), each with "?" if null is allowed, or like(path) for a
// map that may have any of the keys of another value; "ignored" before it marks values of Kyverno's chart that have no
// effect here. It does not check whether templates use a value. Beside the program: hack/chart and the tests of charts use
// it.
package values

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is one key of values.yaml.
type Value struct {
	Name        string
	Path        string // with dots, from the root
	Description string
	Type        string // object for maps with fixed keys
	Enum        []string
	Like        string // the path of the value whose keys are allowed here
	Null        bool   // null is allowed
	Ignored     bool   // accepted, without effect
	Default     any
	Children    []*Value
}

// Parse parses values.yaml. It fails for unknown types and for defaults that their type does not allow.
func Parse(text []byte) (*Value, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("the values are not a map")
	}
	root := &Value{Type: "object"}
	return root, root.read(doc.Content[0])
}

var typeLine = regexp.MustCompile(`^(ignored )?(string|int|bool|map|list|any|enum\(([^)]*)\)|like\(([^)]*)\))(\?)?$`)

func (v *Value) read(node *yaml.Node) error {
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		child := &Value{Name: key.Value, Path: strings.TrimPrefix(v.Path+"."+key.Value, ".")}
		if err := value.Decode(&child.Default); err != nil {
			return fmt.Errorf("%s: %w", child.Path, err)
		}
		var lines []string
		for line := range strings.SplitSeq(key.HeadComment, "\n") {
			line = strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ")
			if t, ok := strings.CutPrefix(line, "@ "); ok {
				m := typeLine.FindStringSubmatch(t)
				if m == nil {
					return fmt.Errorf("%s: %q is not a type", child.Path, t)
				}
				child.Ignored, child.Type, child.Null = m[1] != "", m[2], m[5] != ""
				switch {
				case m[3] != "":
					child.Type, child.Enum = "enum", strings.Split(m[3], ",")
				case m[4] != "":
					child.Type, child.Like = "like", m[4]
				}
				continue
			}
			lines = append(lines, line)
		}
		// A blank line ends a comment about the file, as opposed to the key.
		child.Description = strings.Join(lines, " ")
		if at := strings.LastIndex(key.HeadComment, "\n\n"); at >= 0 {
			child.Description = strings.Join(lines[strings.Count(key.HeadComment[:at], "\n")+2:], " ")
		}
		if child.Type == "" {
			if err := child.infer(value); err != nil {
				return err
			}
		}
		v.Children = append(v.Children, child)
	}
	return nil
}

// infer sets the type that the default shows.
func (v *Value) infer(node *yaml.Node) error {
	switch node.Kind {
	case yaml.MappingNode:
		if len(node.Content) == 0 {
			return fmt.Errorf("%s: an empty map needs a type", v.Path)
		}
		v.Type = "object"
		return v.read(node)
	case yaml.ScalarNode:
		switch node.Tag {
		case "!!str":
			v.Type = "string"
		case "!!bool":
			v.Type = "bool"
		case "!!int":
			v.Type = "int"
		}
	}
	if v.Type == "" {
		return fmt.Errorf("%s: the default does not tell the type", v.Path)
	}
	return nil
}

// Walk calls f for each value below v, parents first.
func (v *Value) Walk(f func(*Value)) {
	for _, child := range v.Children {
		f(child)
		child.Walk(f)
	}
}
