package patch

// orderlyMerge merges two lists in the usual case: each element is a map with a distinct key, and there are no
// directives. Its result equals that of listMerge, in one pass instead of one per element; ok is false if the lists need
// the slow path.
func (m *merger) orderlyMerge(target, patch []any, s *schema) (out []any, ok bool, err error) {
	if len(s.keys) != 1 {
		return nil, false, nil
	}
	key := s.keys[0]
	patches, ok := byKey(patch, key)
	if !ok {
		return nil, false, nil
	}
	for _, e := range patch {
		if _, has := e.(map[string]any)[directiveKey]; has {
			return nil, false, nil
		}
	}
	places, ok := byKey(target, key)
	if !ok {
		return nil, false, nil
	}
	out = make([]any, 0, len(target)+len(patch))
	add := func(old, change any) error {
		v, keep, err := m.value(old, change, s.elements())
		if err != nil {
			return err
		}
		if v == none || v == nil && !keep || isEmptyMap(v) {
			return nil // nothing is left of the element
		}
		merged, isMap := v.(map[string]any)
		if ok = ok && isMap && keyText(merged, key) != ""; ok { // a patch may have removed the key
			out = append(out, v)
		}
		return nil
	}
	for _, e := range patch { // elements in the patch come first, in its order
		old := none
		if i, has := places[keyText(e.(map[string]any), key)]; has {
			old = target[i]
		}
		if err := add(old, e); err != nil {
			return nil, false, err
		}
	}
	for _, e := range target {
		if _, named := patches[keyText(e.(map[string]any), key)]; named {
			continue
		}
		if err := add(e, none); err != nil {
			return nil, false, err
		}
	}
	return out, ok, nil
}

// byKey returns the index of each element by its key; ok is false unless each is a map with a distinct key.
func byKey(list []any, key string) (places map[string]int, ok bool) {
	places = make(map[string]int, len(list))
	for i, e := range list {
		o, isMap := e.(map[string]any)
		text := keyText(o, key)
		if _, again := places[text]; !isMap || text == "" || again {
			return nil, false
		}
		places[text] = i
	}
	return places, true
}
