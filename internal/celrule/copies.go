package celrule

import (
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/jsonpointer"
	"ephor.invalid/ephor/internal/value"
)

// change is one operation of a JSON patch.
type change struct {
	op, path, from string
	value          int // the bytes of its value
}

// copies are the operations of a patch whose copies are to be charged.
type copies []change

// maxParts bounds the paths that are compared with each other.
const maxParts = 32

// plain reports whether a path is short, and the only way to write what it names.
func plain(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.Count(path, "/") > maxParts {
		return false
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		for i := strings.IndexByte(part, '~'); i >= 0; i = strings.IndexByte(part, '~') {
			if part = part[i+1:]; part == "" || part[0] != '0' && part[0] != '1' {
				return false
			}
		}
		if n, err := strconv.Atoi(part); err == nil && (n < 0 || strconv.Itoa(n) != part) {
			return false
		}
	}
	return true
}

// bound returns an upper bound of the bytes that the copies of a patch copy in an object of that size, at most a little more than maxCopied. A
// part of the object that no operation has changed before counts with its size, every other one with that of the whole object, since copies of
// copies double.
func (c copies) bound(object map[string]any, size int) int {
	changed := changes{}
	total := 0
	for _, o := range c {
		if o.op == "copy" {
			part := size
			if v, ok := at(object, o.from); ok && !changed.affect(o.from) {
				part = value.TextLength(v, maxCopied)
			}
			if total += part; total > maxCopied {
				return total
			}
			size += part
		}
		size += o.value
		if o.op == "move" {
			changed.add(o.from)
		}
		if o.op != "test" {
			changed.add(o.path)
		}
	}
	return total
}

// changes are the paths that operations have changed (true), and those above them (false).
type changes map[string]bool

func (c changes) add(path string) {
	if !plain(path) {
		path = "" // everything
	} else if i := strings.LastIndexByte(path, '/'); i >= 0 && path[i+1:] != "-" {
		if _, err := strconv.Atoi(path[i+1:]); err == nil {
			path = path[:i] // the other elements of the list may have moved
		}
	}
	c[path] = true
	for i := strings.LastIndexByte(path, '/'); i >= 0; i = strings.LastIndexByte(path, '/') {
		path = path[:i]
		if !c[path] {
			c[path] = false
		}
	}
}

// affect reports whether the value at a path may have changed.
func (c changes) affect(path string) bool {
	if _, below := c[path]; below {
		return true
	}
	for i := strings.LastIndexByte(path, '/'); i >= 0; i = strings.LastIndexByte(path, '/') {
		if path = path[:i]; c[path] {
			return true
		}
	}
	return false
}

// at returns the value at a path; ok is false if there is none, or if the path is not plain.
func at(v any, path string) (_ any, ok bool) {
	if !plain(path) {
		return nil, false
	}
	for _, part := range jsonpointer.Split(path) {
		switch x := v.(type) {
		case map[string]any:
			if v, ok = x[part]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}
