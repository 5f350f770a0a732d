package patch

import (
	"strconv"

	"ephor.invalid/ephor/internal/jsonpointer"
	"ephor.invalid/ephor/internal/value"
)

// Diff returns the operations that turn a into b: add, remove and replace; none if they are equal. It skips parts that a
// and b share. It compares numbers by value, so a patch never turns 1 into 1.0.
func Diff(a, b any) []Operation {
	d := &differ{}
	d.value("", a, b)
	return d.ops
}

// AppendJSON writes operations as the JSON patch of an admission response: op, path, and value if there is one.
func AppendJSON(dst []byte, ops []Operation) []byte {
	dst = append(dst, '[')
	for i := range ops {
		o := &ops[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"op":"`...)
		dst = append(dst, o.Op...)
		dst = append(dst, `",`...)
		if o.Op == "move" || o.Op == "copy" {
			dst = append(dst, `"from":`...)
			dst = append(value.AppendJSON(dst, o.From), ',')
		}
		dst = append(dst, `"path":`...)
		dst = value.AppendJSON(dst, o.Path)
		if o.Op == "add" || o.Op == "replace" || o.Op == "test" {
			dst = append(dst, `,"value":`...)
			dst = value.AppendJSON(dst, o.Value)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

type differ struct{ ops []Operation }

func (d *differ) add(op, path string, v any) {
	d.ops = append(d.ops, Operation{Op: op, Path: path, Value: v})
}

func (d *differ) value(path string, a, b any) {
	if same(a, b) {
		return
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			d.object(path, x, y)
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			d.list(path, x, y)
			return
		}
	}
	if !value.Equal(a, b) {
		d.add("replace", path, b)
	}
}

// object compares two maps. If the value of an empty key has changed, it replaces the whole map, unless that is the
// document: implementations of JSON patch disagree about what an empty part of a path refers to.
func (d *differ) object(path string, a, b map[string]any) {
	before, had := a[""]
	after, has := b[""]
	if path != "" && (had != has || !equal(before, after)) {
		d.add("replace", path, b)
		return
	}
	for _, key := range keysOf(a) {
		if _, stays := b[key]; !stays {
			d.add("remove", path+"/"+jsonpointer.Escape(key), nil)
		}
	}
	for _, key := range keysOf(b) {
		old, had := a[key]
		if !had {
			d.add("add", path+"/"+jsonpointer.Escape(key), b[key])
			continue
		}
		d.value(path+"/"+jsonpointer.Escape(key), old, b[key])
	}
}

// list compares the part between the common beginning and the common end. It compares elements there one by one; the
// remaining ones are added, or removed from the end backwards, so that indexes stay correct while the patch is applied.
func (d *differ) list(path string, a, b []any) {
	from := 0
	for from < len(a) && from < len(b) && equal(a[from], b[from]) {
		from++
	}
	aEnd, bEnd := len(a), len(b)
	for aEnd > from && bEnd > from && equal(a[aEnd-1], b[bEnd-1]) {
		aEnd, bEnd = aEnd-1, bEnd-1
	}
	// If elements were inserted at the front of a longer list that also changed, the elements at the end correspond.
	shift := 0
	if bEnd-from > aEnd-from && correspond(a[from:aEnd], b[from+bEnd-aEnd:bEnd]) && !correspond(a[from:aEnd], b[from:from+aEnd-from]) {
		shift = bEnd - aEnd
		for i := range shift {
			d.add("add", path+"/"+strconv.Itoa(from+i), b[from+i])
		}
	}
	both := min(aEnd, bEnd) - from
	for i := range both {
		d.value(path+"/"+strconv.Itoa(from+shift+i), a[from+i], b[from+shift+i])
	}
	for i := aEnd - 1; i >= from+both; i-- {
		d.add("remove", path+"/"+strconv.Itoa(i), nil)
	}
	for i := from + shift + both; i < bEnd; i++ {
		d.add("add", path+"/"+strconv.Itoa(i), b[i])
	}
}

func equal(a, b any) bool { return same(a, b) || value.Equal(a, b) }

// correspond guesses whether the lists contain the same named elements in the same order.
func correspond(a, b []any) bool {
	for i := range a {
		x, _ := a[i].(map[string]any)
		y, _ := b[i].(map[string]any)
		if x == nil || y == nil || x["name"] == nil || x["name"] != y["name"] {
			return false
		}
	}
	return len(a) > 0
}
