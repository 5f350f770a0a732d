package patch

import "strings"

// keyTuples returns the values of the keys of all elements, each tuple once, in the order of the lists. An element without a key has an
// empty text for it.
func keyTuples(keys []string, lists ...[]*cell) [][]string {
	seen := map[string]bool{}
	var out [][]string
	for _, list := range lists {
		for _, c := range list {
			o, _ := c.v.(map[string]any)
			tuple := make([]string, len(keys))
			for i, k := range keys {
				tuple[i] = keyText(o, k)
			}
			if id := strings.Join(tuple, "\x00"); !seen[id] {
				seen[id] = true
				out = append(out, tuple)
			}
		}
	}
	return out
}

// scalarTuples returns the scalars in lists of scalars, each once.
func scalarTuples(lists ...[]*cell) [][]string {
	seen := map[string]bool{}
	var out [][]string
	for _, list := range lists {
		for _, c := range list {
			if text := scalarText(c.v); !seen[text] {
				seen[text] = true
				out = append(out, []string{text})
			}
		}
	}
	return out
}

// joinTuples joins tuples that differ only in a value that one of them lacks: ports 80 and 80/TCP are the same.
func joinTuples(tuples [][]string) {
	for i, a := range tuples {
		for j, b := range tuples {
			if joined, ok := join(a, b); ok {
				tuples[i], tuples[j] = joined, joined
			}
		}
	}
}

func join(a, b []string) (out []string, common bool) {
	for i := range a {
		switch {
		case a[i] == b[i]:
			common = true
			out = append(out, a[i])
		case a[i] != "" && b[i] != "":
			return nil, false
		default:
			out = append(out, a[i]+b[i])
		}
	}
	return out, common
}

// usedKeys omits the keys for which no tuple has a value; it keeps all of them if no tuple has any value.
func usedKeys(tuples [][]string, tuple, keys []string) (usedKeys, values []string) {
	used := make([]bool, len(keys))
	any := false
	for _, t := range tuples {
		for i, v := range t {
			if v != "" {
				used[i], any = true, true
			}
		}
	}
	if !any {
		return keys, tuple
	}
	for i, k := range keys {
		if used[i] {
			usedKeys = append(usedKeys, k)
			values = append(values, tuple[i])
		}
	}
	return usedKeys, values
}

// find returns the first element whose keys have the values. The empty key stands for the scalar itself.
func find(list []*cell, keys, values []string) *cell {
	if len(keys) > 0 && len(keys) != len(values) {
		return nil
	}
	for _, c := range list {
		if len(keys) == 0 || keys[0] == "" {
			if hasText(c.v, values[0]) {
				return c
			}
			continue
		}
		o, ok := c.v.(map[string]any)
		if !ok {
			continue
		}
		match := true
		for i, k := range keys {
			v, has := o[k]
			if !has || !hasText(v, values[i]) {
				match = false
				break
			}
		}
		if match {
			return c
		}
	}
	return nil
}

// set replaces the elements that have the values by element, or appends it if there are none; a nil element removes them. The result reuses
// the list. An empty value matches any value. Elements that are null or empty are dropped on the way and, if no values are given, also
// every element that lacks the first key.
func set(list []*cell, keys, values []string, element *cell) ([]*cell, error) {
	out := list[:0] // up to its end, it never holds more than was read
	found := false
	setsMaps := len(keys) > 0 && keys[0] != "" && len(values) > 0 && values[0] != ""
	for _, c := range list {
		if kindOf(c.v) == noKind || isEmptyMap(c.v) {
			continue
		}
		if kindOf(c.v) != mapKind && setsMaps {
			out = append(out, c)
			continue
		}
		match, err := matches(c.v, keys, values)
		if err != nil {
			return nil, err
		}
		switch {
		case !match && len(values) > 0:
			out = append(out, c)
		case match:
			found = true
			if element != nil {
				out = append(out, element)
			}
		}
	}
	if element != nil && kindOf(element.v) != noKind && !found {
		out = append(out, element)
	}
	return out, nil
}

func matches(v any, keys, values []string) (bool, error) {
	last := false
	for i, k := range keys {
		if i < len(values) {
			var err error
			if last, err = matchesField(v, k, values[i]); err != nil {
				return false, err
			}
		}
		if !last {
			return false, nil
		}
	}
	return true, nil
}

func matchesField(v any, key, text string) (bool, error) {
	if key == "" {
		if k := kindOf(v); k != scalarKind {
			return false, wrongKind(scalarKind, k, v)
		}
		return hasText(v, text), nil
	}
	o, ok := v.(map[string]any)
	if !ok {
		return false, wrongKind(mapKind, kindOf(v), v)
	}
	f, has := o[key]
	return has && (text == "" || hasText(f, text)), nil
}

// prepend puts the elements of list after added; elements in both have the position that they have in added.
func prepend(added, list []*cell, keys []string) ([]*cell, error) {
	var err error
	for _, c := range list {
		if keys[0] == "" {
			if added, err = set(added, keys, []string{scalarText(c.v)}, c); err != nil {
				return nil, err
			}
			continue
		}
		var values []string
		for _, k := range keys {
			o, ok := c.v.(map[string]any)
			if !ok && c.v != nil {
				return nil, wrongKind(mapKind, kindOf(c.v), c.v)
			}
			v, has := o[k]
			if !has {
				added = append(added, c)
				continue
			}
			values = append(values, scalarText(v))
		}
		if len(keys) > 1 {
			if added, err = set(added, keys, values, nil); err != nil {
				return nil, err
			}
		}
		if added, err = set(added, keys, values, c); err != nil {
			return nil, err
		}
	}
	return added, nil
}
