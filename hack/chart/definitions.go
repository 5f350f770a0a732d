package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"
)

// writeDefinitions writes the CustomResourceDefinitions in the folder from (YAML) into the folder to, one JSON file each,
// in the form in which the chart contains them. They are JSON without spaces and with fewer descriptions (see trim), because of two
// limits of the API server: Helm stores a release with all its files in one Secret of at most 1 MiB, and kubectl apply stores an object in
// an annotation of at most maxApplied bytes.
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
		trim(definition)
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(definition); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml") + ".json"
		if out.Len() > maxApplied {
			return fmt.Errorf("%s has %d bytes, and kubectl apply accepts at most %d: shorten comments in api/", name, out.Len(), maxApplied)
		}
		if err := os.WriteFile(filepath.Join(to, name), out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// maxApplied is the maximum size of a definition in bytes. The API server accepts 256 KiB of annotations; labels and annotations that
// users add with the chart's values need the rest.
const maxApplied = 250_000

// trim removes descriptions that kubectl explain does not show by default: those of versions other than the preferred one. With
// selectableFields, the API server accepts a definition only if the schemas of all versions are equal, so all of them keep theirs.
func trim(definition map[string]any) {
	spec, _ := definition["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	preferred := ""
	for _, v := range versions {
		v, _ := v.(map[string]any)
		if name, _ := v["name"].(string); v["served"] == true && version.CompareKubeAwareVersionStrings(name, preferred) > 0 {
			preferred = name
		}
	}
	for _, v := range versions {
		v, _ := v.(map[string]any)
		describe(v["schema"], v["name"] == preferred || v["selectableFields"] != nil, nil)
	}
}

// describe shortens every description below v (see summary), or removes it if keep is false. It removes those inside the fields of
// a status, which repeat the spec where they are deep (status.autogen contains every rule again) and which users do not write by hand.
// path is the path of v in the version of the definition.
func describe(v any, keep bool, path []string) {
	switch v := v.(type) {
	case map[string]any:
		for key, below := range v {
			text, isText := below.(string)
			if key != "description" || !isText {
				describe(below, keep, append(slices.Clip(path), key))
				continue
			}
			if text = summary(text); text == "" || !keep || deepInStatus(path) {
				delete(v, key)
			} else {
				v[key] = text
			}
		}
	case []any:
		for _, below := range v {
			describe(below, keep, append(slices.Clip(path), "[]"))
		}
	}
}

// deepInStatus reports whether the path of a schema is inside a field of the status.
func deepInStatus(path []string) bool {
	at := slices.Index(path, "openAPIV3Schema")
	// openAPIV3Schema properties status properties ⟨field⟩ …
	return at >= 0 && len(path) > at+5 && path[at+2] == "status"
}

// maxDescription is the length in bytes up to which a description has more than its first sentence.
const maxDescription = 160

// summary returns the first sentences of the first paragraph, on one line: as many as maxDescription allows, but at least one.
func summary(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	out := 0
	for at := 0; ; {
		end := strings.Index(text[at:], ". ")
		if end < 0 {
			end = len(text) - at - 1
		}
		at += end + 1
		before := text[:at]
		abbreviated := strings.HasSuffix(before, "e.g.") || strings.HasSuffix(before, "i.e.") || strings.HasSuffix(before, "etc.")
		if abbreviated && at < len(text) {
			continue
		}
		if out > 0 && at > maxDescription {
			return text[:out]
		}
		out = at
		if at >= len(text) {
			return text[:out]
		}
	}
}
