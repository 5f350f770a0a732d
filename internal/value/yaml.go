package value

import (
	"math"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// DecodeYAML decodes a text of YAML 1.1, with every number as float64. charge is called with a number of bytes before the text is read: its
// length, and the length that it has when each alias is replaced by its anchor. Its error ends the work. Other errors are those of the
// YAML library, and those of DecodeJSON.
func DecodeYAML(text string, charge func(bytes int) error) (any, error) {
	if err := charge(len(text)); err != nil {
		return nil, err
	}
	if strings.Contains(text, "*") && strings.Contains(text, "&") { // perhaps an alias
		var document yamlv3.Node // it holds aliases as they are written
		if err := yamlv3.Unmarshal([]byte(text), &document); err != nil {
			return nil, err
		}
		if err := charge(expanded{}.length(&document)); err != nil {
			return nil, err
		}
	}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	return DecodeJSONFloat(raw)
}

// yamlNode is the length that counts for a node in addition to its text: it is shorter only in texts of brackets.
const yamlNode = 2

// expanded holds the lengths of nodes with anchors.
type expanded map[*yamlv3.Node]int

// length returns the length of a node with its aliases replaced, up to math.MaxInt32.
func (e expanded) length(n *yamlv3.Node) int {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	if known, ok := e[n]; ok {
		return known
	}
	if n.Anchor != "" {
		e[n] = math.MaxInt32 // for an alias within its anchor
	}
	out := yamlNode + len(n.Value)
	for _, c := range n.Content {
		out = min(out+e.length(c), math.MaxInt32)
	}
	if n.Anchor != "" {
		e[n] = out
	}
	return out
}
