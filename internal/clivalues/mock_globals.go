package clivalues

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/world"
)

// globalData holds the data that a Test defines for GlobalContextEntries.
type globalData map[string]globalEntry

type globalEntry struct {
	value       any
	projections map[string]any
}

// NewGlobals checks and loads the entries; files are relative to dir and must be inside it.
func NewGlobals(list []v1alpha1.GlobalContextEntryValue, dir string) (world.Globals, error) {
	out := globalData{}
	for i, e := range list {
		entry, err := newGlobal(e, dir)
		if _, again := out[e.Name]; again && err == nil {
			err = fmt.Errorf("duplicate entry %q", e.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("globalContextEntries[%d]: %w", i, err)
		}
		out[e.Name] = entry
	}
	return out.global, nil
}

func newGlobal(e v1alpha1.GlobalContextEntryValue, dir string) (globalEntry, error) {
	var out globalEntry
	if e.Name == "" {
		return out, fmt.Errorf("a name is required")
	}
	sources := 0
	for _, is := range []bool{e.Data != nil, len(e.Resources) > 0, len(e.ResourceFiles) > 0} {
		if is {
			sources++
		}
	}
	if sources != 1 {
		return out, fmt.Errorf("entry %s: exactly one of data, resources and resourceFiles must be set", e.Name)
	}
	v, err := globalValue(e, dir)
	if err != nil {
		return out, fmt.Errorf("entry %s: %w", e.Name, err)
	}
	if e.FieldPath != "" {
		if v, err = pick(e.FieldPath, v); err != nil {
			return out, fmt.Errorf("entry %s: fieldPath: %w", e.Name, err)
		}
	}
	out.value, out.projections = v, map[string]any{}
	fields, isMap := v.(map[string]any)
	if isMap && len(e.Projections) > 0 {
		fields = maps.Clone(fields)
		out.value = fields // a projection is also a field of the entry itself
	}
	for _, p := range e.Projections {
		got, err := search(p.Path, v)
		if err != nil {
			return out, fmt.Errorf("entry %s: projection %s: %w", e.Name, p.Name, err)
		}
		if _, again := out.projections[p.Name]; again || p.Name == "" {
			return out, fmt.Errorf("entry %s: projections need names of their own", e.Name)
		}
		out.projections[p.Name] = got
		if isMap {
			fields[p.Name] = got
		}
	}
	return out, nil
}

func globalValue(e v1alpha1.GlobalContextEntryValue, dir string) (any, error) {
	switch {
	case e.Data != nil:
		return e.Data, nil
	case len(e.Resources) > 0:
		return e.Resources, nil
	}
	objects := []any{}
	for _, f := range e.ResourceFiles {
		if !filepath.IsLocal(f) {
			return nil, fmt.Errorf("the file %s is not inside the folder of the test", f)
		}
		found, diags := source.Load([]string{filepath.Join(dir, f)}, source.Options{Numbers: source.Floats})
		if diags.HasErrors() {
			return nil, diags.Errors()
		}
		for _, o := range found {
			source.Normalise(o.Value)
			objects = append(objects, o.Value)
		}
	}
	return objects, nil
}

// pick returns the part of a value at the path, or of each element of a list.
func pick(path string, v any) (any, error) {
	list, ok := v.([]any)
	if !ok {
		return search(path, v)
	}
	out := make([]any, len(list))
	for i, element := range list {
		got, err := search(path, element)
		if err != nil {
			return nil, err
		}
		out[i] = got
	}
	return out, nil
}

func search(text string, v any) (any, error) {
	query, err := jmespath.Compile(text)
	if err != nil {
		return nil, err
	}
	return query.Search(&jmespath.Env{Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes)}, v)
}

// global is world.Globals.
func (g globalData) global(_ context.Context, asked world.GlobalRequest) (any, error) {
	name := string(asked)
	if e, ok := g[name]; ok {
		return e.value, nil
	}
	entry, projection, _ := strings.Cut(name, ".")
	e, ok := g[entry]
	if !ok {
		return nil, fmt.Errorf("globalContextEntries has no entry %q: %w", entry, world.ErrUnavailable)
	}
	v, ok := e.projections[projection]
	if !ok {
		return nil, fmt.Errorf("the entry %s has no projection %q", entry, projection)
	}
	return v, nil
}
