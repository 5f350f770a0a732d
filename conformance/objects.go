package conformance

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
)

// writtenObjects reads the objects in a file, or those that `apply -o` wrote to a directory, by kind/namespace/name, with None for what an object does not
// have; of several objects with the same key, the last counts.
func writtenObjects(path string) (map[string]any, error) {
	inputs, diags := source.Find([]string{path}, source.Options{})
	out := map[string]any{}
	for _, in := range inputs {
		docs, more := source.Open(in)
		diags = append(diags, more...)
		for _, d := range docs {
			v, more := d.Value(source.Floats)
			diags = append(diags, more...)
			o, _ := v.(map[string]any)
			if o == nil {
				continue
			}
			metadata, _ := o["metadata"].(map[string]any)
			key := make([]string, 3)
			for i, part := range []any{o["kind"], metadata["namespace"], metadata["name"]} {
				key[i] = "None"
				if part != nil {
					key[i] = fmt.Sprint(part)
				}
			}
			out[strings.Join(key, "/")] = o
		}
	}
	return out, diags.Err()
}

// noObject is the key of an object without identity. Kyverno writes such an empty object in place of each one whose patch failed; Ephor writes
// those objects unchanged.
const noObject = "None/None/None"

// objectDifference compares the written objects with those in the recording, which lists every written object. given are resources that need
// not be written as they are: Kyverno writes resources that no MutatingPolicy is for in some runs, and leaves them out in others.
func objectDifference(want map[string]any, dir string, given map[string]any) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	got := map[string]any{}
	if len(files) > 0 {
		var err error
		if got, err = writtenObjects(dir); err != nil {
			return []string{"the written objects: " + err.Error()}
		}
	}
	var out []string
	empty, patchFailed := want[noObject].(map[string]any)
	patchFailed = patchFailed && len(empty) == 0
	for _, key := range slices.Sorted(maps.Keys(want)) {
		o, ok := got[key]
		switch {
		case !ok && (key == noObject && patchFailed || given[key] != nil && value.Equal(given[key], want[key])):
		case !ok:
			out = append(out, fmt.Sprintf("%s\n    want %s\n    got  no object", key, value.JSON(want[key])))
		case !value.Equal(o, want[key]):
			out = append(out, fmt.Sprintf("%s\n    want %s\n    got  %s", key, value.JSON(want[key]), value.JSON(o)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, wanted := want[key]; !wanted && !patchFailed {
			out = append(out, fmt.Sprintf("%s\n    want no object\n    got  %s", key, value.JSON(got[key])))
		}
	}
	return out
}
