package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// writeDefinitions writes the CustomResourceDefinitions in the folder from (YAML) into the folder to, one JSON file each,
// in the form in which the chart contains them. Helm stores a release in one Secret, with the chart's files and everything
// that they render, and a Secret may hold 1 MiB. So they are JSON without spaces, and their descriptions are short (see
// shorten).
func writeDefinitions(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no definitions in %s: %w", from, err)
	}
	if err := os.RemoveAll(to); err != nil { // a removed kind must not leave its file behind
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var definition map[string]any
		if err := yaml.Unmarshal(text, &definition); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		shorten(definition, nil)
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(definition); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml") + ".json"
		if err := os.WriteFile(filepath.Join(to, name), out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// shorten cuts every description below v to its first sentence. It drops those inside the fields of a status, which repeat
// the spec where they are deep (status.autogen has every rule again) and which users do not write by hand. path is the
// path of v in the definition.
func shorten(v any, path []string) {
	switch v := v.(type) {
	case map[string]any:
		for key, below := range v {
			text, isText := below.(string)
			if key != "description" || !isText {
				shorten(below, append(slices.Clip(path), key))
				continue
			}
			if text = firstSentence(text); text == "" || deepInStatus(path) {
				delete(v, key)
			} else {
				v[key] = text
			}
		}
	case []any:
		for _, below := range v {
			shorten(below, append(slices.Clip(path), "[]"))
		}
	}
}

// deepInStatus reports whether the path of a schema is inside a field of the status.
func deepInStatus(path []string) bool {
	at := slices.Index(path, "openAPIV3Schema")
	// openAPIV3Schema properties status properties ⟨field⟩ …
	return at >= 0 && len(path) > at+5 && path[at+2] == "status"
}

// firstSentence returns the text up to the first full stop that ends a sentence, on one line.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	for at := 0; ; {
		end := strings.Index(text[at:], ". ")
		if end < 0 {
			return text
		}
		at += end + 1
		if before := text[:at]; !strings.HasSuffix(before, "e.g.") && !strings.HasSuffix(before, "i.e.") && !strings.HasSuffix(before, "etc.") {
			return before
		}
	}
}
