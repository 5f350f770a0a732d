package testrun

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/diag"
	marks "ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
)

// expected reads the objects of an expected file and caches them.
func (r *testRun) expected(path string) ([]map[string]any, error) {
	if objects, known := r.files[path]; known {
		return objects, nil
	}
	objects, diags := source.Load([]string{path}, source.Options{Numbers: source.Floats, Recursive: true})
	if diags.HasErrors() {
		return nil, errors.New(diag.List(diags.Errors()).Error())
	}
	out := make([]map[string]any, len(objects))
	for i, o := range objects {
		r.scopes.Normalise(o.Value)
		out[i] = o.Value
	}
	if r.files == nil {
		r.files = map[string][]map[string]any{}
	}
	r.files[path] = out
	return out, nil
}

// comparePatched compares the object after the rules with the object of the same name in the file. If the file does not
// contain it, the row is dropped, unless the expectation makes this a failure.
func (r *testRun) comparePatched(e *wantedResult, row *testRow, a *offline.Answer) (failed, kept bool) {
	doc := a.Object
	if doc == nil {
		doc = a.Request.OldObject
	}
	got, err := doc.Map()
	if err != nil {
		return resourceError(row, err), true
	}
	return r.compareWith(e, row, got)
}

// compareWith compares one object with the object of the same name in the expectation's file of patched objects.
func (r *testRun) compareWith(e *wantedResult, row *testRow, got map[string]any) (failed, kept bool) {
	file := r.within(e.PatchedResources)[0]
	objects, err := r.expected(file)
	if err != nil {
		return resourceError(row, err), true
	}
	identity := newTestObject(got)
	for _, want := range objects {
		if o := newTestObject(want); o.String() == identity.String() {
			return difference(row, want, got), true
		}
	}
	if e.FailOnMissingResources {
		return resourceError(row, fmt.Errorf("%s is not in %s", identity, e.PatchedResources)), true
	}
	text := "%s is not in %s, so nothing was compared"
	if r.strict {
		row.Result, row.Reason, row.Message = rowFail, reasonNotCompared, fmt.Sprintf(text, identity, e.PatchedResources)
		return true, true
	}
	r.doubt(e, reasonNotCompared, identity.String(), text, identity, e.PatchedResources)
	return false, false
}

func resourceError(row *testRow, err error) bool {
	row.Result, row.Reason, row.Message = rowFail, reasonResourceError, err.Error()
	return true
}

// difference marks the row as failed if the two objects differ.
func difference(row *testRow, want, got map[string]any) bool {
	w, g := essence(want), essence(got)
	if value.Equal(w, g) {
		return false
	}
	row.Result, row.Reason, row.Message = rowFail, reasonDiff, messageDiff
	row.want, row.got = yamlText(w), yamlText(g)
	return true
}

// essence returns the object without the parts that comparisons ignore: labels of generated objects, the mark of the
// background controller, and empty values.
func essence(o map[string]any) map[string]any {
	o = maps.Clone(o)
	meta, _ := o["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]any{}
	}
	labels := map[string]any{}
	if l, ok := meta["labels"].(map[string]any); ok {
		for k, v := range l {
			if !strings.HasPrefix(k, "generate.kyverno.io/") {
				labels[k] = v
			}
		}
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok && annotations[marks.Annotation] != nil {
		annotations = maps.Clone(annotations)
		delete(annotations, marks.Annotation)
		meta["annotations"] = annotations
	}
	delete(labels, "app.kubernetes.io/managed-by")
	meta["labels"] = labels
	o["metadata"] = meta
	out, _ := withoutEmpty(o).(map[string]any)
	return out
}

// withoutEmpty removes empty maps, empty lists and nulls at every depth. It returns nil if nothing remains.
func withoutEmpty(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, c := range x {
			if c = withoutEmpty(c); c != nil {
				out[k] = c
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		out := make([]any, 0, len(x))
		for _, c := range x {
			if c = withoutEmpty(c); c != nil {
				out = append(out, c)
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}
	return v
}
