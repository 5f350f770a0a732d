package pattern

// object judges the map m by the map pattern n, first phase before second.
func (w *walk) object(n *node, m map[string]any, path string) (outcome, *fault) {
	w.note(n, m)
	var (
		skipped outcome
		texts   *fault
		applied bool
		off     bool
	)
	for i := range n.first {
		e := &n.first[i]
		o, f := w.anchored(e, m, path)
		switch {
		case o == matched:
			applied = true
		case o.skips():
			off = off || e.anchor == condition
			skipped |= o
			texts = w.join(texts, f)
		case off:
		default:
			return o, f
		}
	}
	if off || skipped != 0 && !applied {
		return skipped, texts
	}
	for i := range n.second {
		e := &n.second[i]
		if o, f := w.anchored(e, m, path); o != matched {
			return o, f
		}
	}
	return matched, nil
}

// join adds the text of f to that of all.
func (w *walk) join(all, f *fault) *fault {
	if !w.explain {
		return nil
	}
	if all == nil {
		return &fault{path: f.path, text: f.text}
	}
	all.text += "; " + f.text
	return all
}

// anchored judges one entry of a map pattern.
func (w *walk) anchored(e *entry, m map[string]any, path string) (outcome, *fault) {
	v, present := m[e.key]
	switch e.anchor {
	case condition:
		if !present {
			if !w.explain {
				return conditionOff, nil
			}
			return w.fail(conditionOff, path, "conditional anchor mismatch: conditional anchor key doesn't exist in the resource")
		}
		if o, f := w.element(e.node, v, w.child(path, e.key)); o != matched {
			return conditionOff, w.prefix("conditional anchor mismatch: ", f)
		}
		return matched, nil
	case global:
		if !present {
			return matched, nil
		}
		if o, f := w.element(e.node, v, w.child(path, e.key)); o != matched {
			return globalOff, w.prefix("global anchor mismatch: ", f)
		}
		return matched, nil
	case equality:
		if !present {
			return matched, nil
		}
		return w.element(e.node, v, w.child(path, e.key))
	case negation:
		if !present {
			return matched, nil
		}
		if !w.explain {
			return mismatch | forbidden, nil
		}
		at := w.child(path, e.key)
		return w.fail(mismatch|forbidden, at, "negation anchor matched in resource: %s is not allowed", at)
	case existence:
		if !present {
			return matched, nil
		}
		return w.exists(e.node, v, w.child(path, e.key))
	}
	if e.node.isAnyValue() {
		if v != nil {
			return matched, nil
		}
		if !w.explain {
			return mismatch, nil
		}
		return w.fail(mismatch, path, "%s/%s not found", path, e.key)
	}
	return w.element(e.node, v, w.child(path, e.key))
}

func (w *walk) prefix(text string, f *fault) *fault {
	if f == nil {
		return nil
	}
	return &fault{path: f.path, text: text + f.text}
}

// isAnyValue reports whether n is the pattern "*".
func (n *node) isAnyValue() bool {
	return n.kind == scalarNode && n.scalar.kind == textScalar && n.scalar.text.shape == anyValue
}
