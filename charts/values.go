package charts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Value is a value of a release that the chart rejects or ignores.
type Value struct {
	Path   string // such as admissionController.replicas
	Reason string // why it is rejected
}

// Names of the charts.
const (
	Ephor    = "ephor"
	Policies = "ephor-policies"
)

// Values compares the values of a user with the schema of a chart. It returns those that Helm rejects, and those that are accepted without
// effect.
func Values(chart string, given map[string]any) (refused, idle []Value, err error) {
	text, err := files.ReadFile(chart + "/values.schema.json")
	if err != nil {
		return nil, nil, err
	}
	c := comparison{}
	if err := json.Unmarshal(text, &c.root); err != nil {
		return nil, nil, fmt.Errorf("charts: values.schema.json: %w", err)
	}
	c.value("", given, &c.root)
	return c.refused, c.idle, nil
}

// node is a JSON Schema, with the keywords that the chart's schema uses.
type node struct {
	Ref         string           `json:"$ref"`
	Type        any              `json:"type"`
	Enum        []any            `json:"enum"`
	Properties  map[string]*node `json:"properties"`
	Definitions map[string]*node `json:"definitions"`
	Additional  json.RawMessage  `json:"additionalProperties"`
	Idle        bool             `json:"x-without-effect"`
}

type comparison struct {
	root          node
	refused, idle []Value
}

func (c *comparison) refuse(path, format string, args ...any) {
	c.refused = append(c.refused, Value{path, fmt.Sprintf(format, args...)})
}

// value compares one value. null removes a value of the chart, and is always accepted.
func (c *comparison) value(path string, v any, n *node) {
	if name, ok := strings.CutPrefix(n.Ref, "#/definitions/"); ok && c.root.Definitions[name] != nil {
		idle := n.Idle
		n = c.root.Definitions[name]
		if idle {
			c.idle = append(c.idle, Value{Path: path})
			return
		}
	}
	switch {
	case n.Idle:
		c.idle = append(c.idle, Value{Path: path})
		return
	case v == nil:
		return
	}
	if types := n.types(); len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return isOf(v, t) }) {
		c.refuse(path, "it has to be of the type %s", strings.Join(types, " or "))
		return
	}
	if len(n.Enum) > 0 && !slices.Contains(n.Enum, v) {
		c.refuse(path, "it has to be one of %v", n.Enum)
		return
	}
	object, ok := v.(map[string]any)
	if !ok {
		return
	}
	var rest *node // of the properties without a name; nil for any
	closed := string(n.Additional) == "false"
	if len(n.Additional) > 0 && n.Additional[0] == '{' {
		rest = &node{}
		if json.Unmarshal(n.Additional, rest) != nil {
			rest = nil
		}
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		switch child := n.Properties[key]; {
		case child != nil:
			c.value(at, object[key], child)
		case closed:
			c.refuse(at, "")
		case rest != nil:
			c.value(at, object[key], rest)
		}
	}
}

func (n *node) types() (out []string) {
	switch t := n.Type.(type) {
	case string:
		return []string{t}
	case []any:
		for _, e := range t {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// isOf reports whether the value has the type of JSON Schema.
func isOf(v any, name string) bool {
	switch name {
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "null":
		return v == nil
	case "number":
		return isNumber(v)
	case "integer":
		f, ok := v.(float64)
		return ok && f == float64(int64(f)) || !ok && isNumber(v)
	}
	return true
}

func isNumber(v any) bool {
	switch v.(type) {
	case float64, int64, int:
		return true
	}
	return false
}
