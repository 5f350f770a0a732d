package patch

// orderlyMerge merges two lists as they usually are: maps with a key of their own each, and no directives. It gives what
// listMerge gives, in one pass instead of one per element; ok is false when the lists need the long way.
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
		if ok = ok && isMap && keyText(merged, key) != ""; ok { // a patch may have taken the key away
			out = append(out, v)
		}
		return nil
	}
	for _, e := range patch { // what the patch names comes first, in its order
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

// byKey finds the elements of a list by their keys; ok is false unless each is a map with a key of its own.
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
