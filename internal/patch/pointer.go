package patch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/jsonpointer"
)

// split splits a JSON pointer into its parents and its last part, both decoded. ok is false if it has no slash.
func split(path string) (parents []string, last string, ok bool) {
	if path == "" {
		return nil, "", true
	}
	parts := strings.Split(path, "/")
	if len(parts) < 2 {
		return nil, "", false
	}
	if strings.Contains(path, "~") {
		for i, p := range parts {
			parts[i] = jsonpointer.Unescape(p)
		}
	}
	return parts[1 : len(parts)-1], parts[len(parts)-1], true
}

// locate finds the map or list that contains the target of path.
func locate(doc any, path string) (container any, key string, ok bool) {
	parents, key, ok := split(path)
	if !ok {
		return nil, "", false
	}
	for _, p := range parents {
		next, err := get(doc, p)
		if err != nil || kindOf(next) != mapKind && kindOf(next) != listKind {
			return nil, "", false
		}
		doc = next
	}
	return doc, key, true
}

func reaches(doc any, path string) bool {
	_, _, ok := locate(doc, path)
	return ok
}

// change returns doc with the container of path's target replaced by the result of f. It copies only the containers on
// the way. The way must exist (see locate).
func (e *Edits) change(doc any, path string, f func(container any, key string) (any, error)) (any, error) {
	parents, key, _ := split(path)
	return e.changeAt(doc, parents, func(c any) (any, error) { return f(c, key) })
}

func (e *Edits) changeAt(v any, parents []string, f func(any) (any, error)) (any, error) {
	if len(parents) == 0 {
		return f(v)
	}
	child, err := get(v, parents[0])
	if err != nil {
		return nil, err
	}
	made, err := e.changeAt(child, parents[1:], f)
	if err != nil {
		return nil, err
	}
	if parents[0] == "" {
		return made, nil // the empty part stands for the container itself
	}
	if same(child, made) {
		return v, nil
	}
	return e.put(v, parents[0], made)
}

// get returns a member. The empty key stands for the container itself.
func get(container any, key string) (any, error) {
	if key == "" {
		return container, nil
	}
	switch c := container.(type) {
	case map[string]any:
		v, ok := c[key]
		if !ok {
			return nil, fmt.Errorf("unable to get nonexistent key: %s: %w", key, errMissing)
		}
		return v, nil
	case []any:
		i, err := index(key, len(c))
		if err != nil {
			return nil, err
		}
		if i >= len(c) {
			return nil, badIndex(i)
		}
		return c[i], nil
	}
	return nil, errNoObject
}

func badIndex(i int) error {
	return fmt.Errorf("Unable to access invalid index: %d: %w", i, errIndex) //lint:ignore ST1005 the reference's words
}

// index parses an index; a negative one counts from the end n.
func index(key string, n int) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, err
	}
	if i < 0 {
		if i < -n {
			return 0, badIndex(i)
		}
		i += n
	}
	return i, nil
}

// put replaces a member that exists.
func (e *Edits) put(container any, key string, v any) (any, error) {
	switch c := container.(type) {
	case map[string]any:
		out, err := e.mapOf(c)
		if err != nil {
			return nil, err
		}
		out[key] = v
		return out, nil
	case []any:
		i, err := index(key, len(c))
		if err != nil {
			return nil, err
		}
		if i >= len(c) {
			return nil, badIndex(i)
		}
		out, err := e.listOf(c)
		if err != nil {
			return nil, err
		}
		out[i] = v
		return out, nil
	}
	return nil, errNoObject
}

// addTo sets a member of a map, or inserts into a list; `-` appends.
func (e *Edits) addTo(container any, key string, v any) (any, error) {
	c, ok := container.([]any)
	if !ok {
		return e.put(container, key, v)
	}
	i := len(c)
	if key != "-" {
		var err error
		if i, err = strconv.Atoi(key); err != nil {
			return nil, fmt.Errorf("value was not a proper array index: '%s': %w", key, err)
		}
		n := len(c) + 1
		if i >= n || i < -n {
			return nil, badIndex(i)
		}
		if i < 0 {
			i += n
		}
	}
	out, err := e.listOf(c)
	if err == nil {
		err = e.moves(len(c) - i)
	}
	if err != nil {
		return nil, err
	}
	return e.own(slices.Insert(out, i, v)), nil
}

// removeFrom removes a member; it ignores a missing one.
func (e *Edits) removeFrom(container any, key string) (any, error) {
	switch c := container.(type) {
	case map[string]any:
		if _, ok := c[key]; !ok {
			return c, nil
		}
		out, err := e.mapOf(c)
		if err != nil {
			return nil, err
		}
		delete(out, key)
		return out, nil
	case []any:
		i, err := strconv.Atoi(key)
		if err != nil {
			return nil, err
		}
		if i < 0 {
			i += len(c)
		}
		if i < 0 || i >= len(c) {
			return c, nil
		}
		out, err := e.listOf(c)
		if err == nil {
			err = e.moves(len(c) - i)
		}
		if err != nil {
			return nil, err
		}
		return slices.Delete(out, i, i+1), nil
	}
	return nil, errNoObject
}

// maxPadding bounds the number of nulls that are added for an index far beyond the end of a list.
const maxPadding = 1 << 12

// ensureParents creates the missing maps and lists on path: a list if the next part is an index, with nulls before it.
func (e *Edits) ensureParents(meter *budget.Meter, doc any, path string) (any, error) {
	parts := strings.Split(path, "/")
	if len(parts) < 2 {
		return doc, nil
	}
	parts = parts[1:]
	at := doc
	var way []string
	for i, part := range parts[:len(parts)-1] {
		key := jsonpointer.Unescape(part)
		next, err := get(at, key)
		if err == nil && next != nil {
			if k := kindOf(next); k != mapKind && k != listKind {
				return nil, errInvalid
			}
			at, way = next, append(way, key)
			continue
		}
		made, err := parent(meter, parts[i+1])
		if err != nil {
			return nil, err
		}
		doc, err = e.changeAt(doc, way, func(c any) (any, error) {
			list, ok := c.([]any)
			if n, err := strconv.Atoi(key); err == nil && ok && n > len(list) {
				if n > maxPadding {
					return nil, badIndex(n)
				}
				if err := meter.Step(n); err != nil {
					return nil, err
				}
				c = append(slices.Clip(list), make([]any, n-len(list))...)
			}
			out, err := e.addTo(c, key, made)
			if err != nil && !budget.Over(err) {
				return c, nil // the operation itself will report what is missing
			}
			return out, err
		})
		if err != nil {
			return nil, err
		}
		// If the new container could not be added, the parts after it are missing.
		if _, _, ok := locate(doc, "/"+strings.Join(append(slices.Clone(parts[:i+1]), ""), "/")); !ok {
			return doc, nil
		}
		at, way = made, append(way, key)
	}
	return doc, nil
}

// parent returns a new container for the next part.
func parent(meter *budget.Meter, next string) (any, error) {
	if next == "-" {
		return []any{}, nil
	}
	n, err := strconv.Atoi(next)
	if err != nil {
		return map[string]any{}, nil
	}
	if n < -1 {
		return nil, fmt.Errorf("Unable to ensure path for negative index other than -1: %d: %w", n, errIndex) //lint:ignore ST1005 the reference's words
	}
	if n > maxPadding {
		return nil, badIndex(n)
	}
	if err := meter.Step(max(n, 0)); err != nil {
		return nil, err
	}
	return make([]any, max(n, 0)), nil
}
