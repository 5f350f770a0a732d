package values

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// types maps types to their names in JSON Schema.
var types = map[string]string{"string": "string", "int": "integer", "bool": "boolean", "map": "object", "list": "array", "object": "object"}

// Schema returns the JSON Schema (draft 7) of the values. It rejects keys that values.yaml does not have: they are
// mistakes.
func (v *Value) Schema(chart string) ([]byte, error) {
	s, err := v.schema(v)
	if err != nil {
		return nil, err
	}
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "Values of the chart " + chart
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err = e.Encode(s)
	return out.Bytes(), err
}

func (v *Value) schema(root *Value) (map[string]any, error) {
	s := map[string]any{}
	description := v.Description
	if v.Ignored {
		description = "Accepted without effect. " + description
		s["x-without-effect"] = true // charts.Values reads it
	}
	if description != "" {
		s["description"] = description
	}
	switch name := types[v.Type]; {
	case v.Type == "any":
	case v.Type == "like":
		of := root.find(v.Like)
		if of == nil || of.Type != "object" {
			return nil, fmt.Errorf("%s: %s is no value with keys of its own", v.Path, v.Like)
		}
		s["type"] = "object"
		return s, of.properties(root, s)
	case v.Type == "enum":
		values := []any{}
		for _, e := range v.Enum {
			values = append(values, e)
		}
		if v.Null {
			values = append(values, nil)
		}
		s["enum"] = values
	case name == "":
		return nil, fmt.Errorf("%s: the schema does not know the type %q", v.Path, v.Type)
	case v.Null:
		s["type"] = []any{name, "null"}
	default:
		s["type"] = name
	}
	if v.Type != "object" {
		return s, nil
	}
	return s, v.properties(root, s)
}

// properties adds the keys of v to the schema s, which then rejects all others.
func (v *Value) properties(root *Value, s map[string]any) error {
	properties := map[string]any{}
	for _, child := range v.Children {
		c, err := child.schema(root)
		if err != nil {
			return err
		}
		properties[child.Name] = c
	}
	if v.Path == "" {
		// Helm passes parents' values to charts that are dependencies.
		properties["enabled"] = map[string]any{"type": "boolean", "description": "Read by a chart that has this one as a dependency."}
	}
	s["properties"] = properties
	s["additionalProperties"] = false
	return nil
}

// find returns the value at the path below v, or nil.
func (v *Value) find(path string) *Value {
	var found *Value
	v.Walk(func(c *Value) {
		if c.Path == path {
			found = c
		}
	})
	return found
}
