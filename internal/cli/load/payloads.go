package load

import (
	"fmt"
	"os"

	"github.com/ephor-dev/ephor/internal/cli/terminal"
	"github.com/ephor-dev/ephor/internal/source"
)

// Payload is a document that need not be an object of a cluster.
type Payload struct {
	Path  string
	Value map[string]any
}

// Payloads reads files of one object each.
func Payloads(paths []string) ([]Payload, error) {
	var out []Payload
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("failed to load the payload: %w", err)
		}
		docs := source.Split(path, string(text))
		if len(docs) != 1 {
			return nil, fmt.Errorf("failed to load the payload: %s has %d documents; one object is needed", path, len(docs))
		}
		v, diags := docs[0].Value(source.Floats)
		if diags.HasErrors() {
			return nil, terminal.Mistaken("failed to load the payload", diags)
		}
		object, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("failed to load the payload: the top level of %s is not an object", path)
		}
		out = append(out, Payload{path, object})
	}
	return out, nil
}
