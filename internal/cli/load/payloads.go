package load

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
)

// Payload is a document that need not be a Kubernetes object.
type Payload struct {
	Path  string
	Sort  policy.Payload
	Value map[string]any
}

// PayloadFlags are the flags for each type of documents.
type PayloadFlags struct{ json, http, envoy []string }

// AddFlags adds --json, --http-payload and --envoy-payload.
func (p *PayloadFlags) AddFlags(f *pflag.FlagSet) {
	f.Var(terminal.Paths(&p.json), "json", "JSON or YAML documents for CEL policies with evaluation.mode JSON, one object in each file")
	f.Var(terminal.Paths(&p.http), "http-payload", "HTTP requests for ValidatingPolicies with evaluation.mode HTTP, one object in each JSON or YAML file")
	f.Var(terminal.Paths(&p.envoy), "envoy-payload", "Envoy check requests for ValidatingPolicies with evaluation.mode Envoy, one object in each JSON or YAML file")
}

// Any reports whether the user gave any document, and JSON whether the user gave a JSON document.
func (p *PayloadFlags) Any() bool { return len(p.json)+len(p.http)+len(p.envoy) > 0 }

// JSON is described with Any.
func (p *PayloadFlags) JSON() bool { return len(p.json) > 0 }

// Read reads the documents: first JSON, then HTTP, then Envoy.
func (p *PayloadFlags) Read() ([]Payload, error) {
	var out []Payload
	for _, s := range []struct {
		paths []string
		sort  policy.Payload
	}{{p.json, policy.JSONPayload}, {p.http, policy.HTTPPayload}, {p.envoy, policy.EnvoyPayload}} {
		read, err := Payloads(s.paths, s.sort)
		if err != nil {
			return nil, err
		}
		out = append(out, read...)
	}
	return out, nil
}

// Payloads reads files with one object each as documents of one type.
func Payloads(paths []string, sort policy.Payload) ([]Payload, error) {
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
		out = append(out, Payload{path, sort, object})
	}
	return out, nil
}
