package scan

import "testing"

// The hash covers labels, annotations, and everything except metadata and status.
func TestContentHash(t *testing.T) {
	pod := func(change func(o, meta map[string]any)) uint64 {
		meta := map[string]any{"name": "p", "resourceVersion": "1", "labels": map[string]any{"a": "b"}}
		o := map[string]any{"kind": "Pod", "metadata": meta, "spec": map[string]any{"x": int64(1)}, "status": map[string]any{"phase": "Running"}}
		change(o, meta)
		return contentHash(o)
	}
	same := pod(func(_, _ map[string]any) {})
	for name, c := range map[string]struct {
		change func(o, meta map[string]any)
		same   bool
	}{
		"status":      {func(o, _ map[string]any) { o["status"] = nil }, true},
		"version":     {func(_, m map[string]any) { m["resourceVersion"] = "2" }, true},
		"managed":     {func(_, m map[string]any) { m["managedFields"] = []any{"x"} }, true},
		"labels":      {func(_, m map[string]any) { m["labels"] = map[string]any{"a": "c"} }, false},
		"annotations": {func(_, m map[string]any) { m["annotations"] = map[string]any{"a": "b"} }, false},
		"spec":        {func(o, _ map[string]any) { o["spec"] = map[string]any{"x": int64(2)} }, false},
		"data":        {func(o, _ map[string]any) { o["data"] = map[string]any{} }, false},
	} {
		if got := pod(c.change) == same; got != c.same {
			t.Errorf("%s: the same content is %v, want %v", name, got, c.same)
		}
	}
}

// A status alone does not change the hash if the kind has a generation; without one, every new version does.
func TestMetaHash(t *testing.T) {
	labels, none := map[string]string{"a": "b"}, map[string]string(nil)
	base := metaHash("1", 3, labels, none)
	for name, c := range map[string]struct {
		got  uint64
		same bool
	}{
		"a status":              {metaHash("2", 3, labels, none), true},
		"a spec":                {metaHash("2", 4, labels, none), false},
		"a label":               {metaHash("2", 3, map[string]string{"a": "c"}, none), false},
		"labels as annotations": {metaHash("2", 3, none, labels), false},
	} {
		if (c.got == base) != c.same {
			t.Errorf("%s: seen as the same: %v", name, !c.same)
		}
	}
	if metaHash("1", 0, labels, none) == metaHash("2", 0, labels, none) {
		t.Error("without a generation, a new version does not change the hash")
	}
}
