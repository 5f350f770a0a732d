package pattern

import "ephor.invalid/ephor/internal/trace"

// list matches the list l against the list pattern n.
func (w *walk) list(n *node, l []any, path string) (outcome, *fault) {
	if len(n.items) == 0 {
		if !w.explain {
			return mismatch, nil
		}
		return w.fail(mismatch, trace.Shape, path, "pattern Array empty")
	}
	switch first := w.settle(n.items[0]); first.kind {
	case mapNode:
		return w.everyMap(first, l, path)
	case scalarNode:
		return w.value(first, l, path)
	}
	if len(l) < len(n.items) {
		if !w.explain {
			return mismatch, nil
		}
		return w.fail(mismatch, trace.Shape, "", "validate Array failed, array length mismatch, resource Array len is %d and pattern Array len is %d", len(l), len(n.items))
	}
	for i, item := range n.items {
		if o, f := w.element(item, l[i], w.index(path, i)); o != matched {
			return o, f
		}
	}
	return matched, nil
}

// everyMap matches each element of l against the map pattern n. It ignores elements that an anchor excludes; if it
// excludes all of them, the pattern does not apply to the list.
func (w *walk) everyMap(n *node, l []any, path string) (outcome, *fault) {
	var (
		skipped outcome
		reasons reasons
		applied bool
	)
	for i, v := range l {
		o, f := w.element(n, v, w.index(path, i))
		switch {
		case o == matched:
			applied = true
		case o.skips():
			skipped |= o
			reasons.add(f)
		default:
			return o, f
		}
	}
	if skipped != 0 && !applied {
		return skipped, w.join(&reasons)
	}
	return matched, nil
}

// exists evaluates the existence anchor: for each element of the pattern list, one element of the resource list must
// match.
func (w *walk) exists(n *node, v any, path string) (outcome, *fault) {
	l, ok := v.([]any)
	if ok {
		for _, item := range n.items {
			if !w.someMap(item, l) {
				ok = false
				break
			}
		}
	}
	if ok {
		return matched, nil
	}
	if !w.explain {
		return mismatch, nil
	}
	return w.fail(mismatch, causeOf(v, trace.NoElement), path, "existence anchor validation failed at path %s", path)
}

// someMap reports whether some element of l matches n. It gives no reasons for the others, because no message uses them.
func (w *walk) someMap(n *node, l []any) bool {
	defer func(was bool) { w.explain = was }(w.explain)
	w.explain = false
	for _, v := range l {
		if o, _ := w.element(n, v, ""); o == matched {
			return true
		}
	}
	return false
}
