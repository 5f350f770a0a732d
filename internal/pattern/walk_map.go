package pattern

import "ephor.invalid/ephor/internal/trace"

// object matches the map m against the map pattern n, first phase before second.
//
// In the first phase a mismatch ends the walk, and a skip is recorded. A condition () of this map that does not hold
// excludes the map whatever the other keys are, even if they do not match. Skips from below, such as a list whose
// elements are all skipped, exclude the map only if no other key of the phase matches. All reasons are listed.
func (w *walk) object(n *node, m map[string]any, path string) (outcome, *fault) {
	w.recordSeen(n, m)
	var (
		skipped outcome
		reasons reasons
		applied bool // some key of the first phase matches
		off     bool // a condition of this map does not hold
	)
	for i := range n.first {
		e := &n.first[i]
		o, f := w.anchored(e, m, path)
		f.by(e.node)
		switch {
		case o == matched:
			applied = true
		case o.skips():
			off = off || e.anchor == condition
			skipped |= o
			reasons.add(f)
		case off: // a mismatch in a map that is excluded anyway
		default:
			return o, f
		}
	}
	if off || skipped != 0 && !applied {
		return skipped, w.join(&reasons)
	}
	for i := range n.second {
		e := &n.second[i]
		if o, f := w.anchored(e, m, path); o != matched {
			f.by(e.node)
			return o, f
		}
	}
	return matched, nil
}

// anchored matches one entry of a map pattern.
func (w *walk) anchored(e *mapEntry, m map[string]any, path string) (outcome, *fault) {
	key := e.key
	if e.glob {
		w.count(len(m))
		key = e.actual(m)
	}
	v, present := m[key]
	switch e.anchor {
	case condition:
		if !present {
			if !w.explain {
				return conditionOff, nil
			}
			o, f := w.fail(conditionOff, trace.Missing, path, "conditional anchor mismatch: conditional anchor key doesn't exist in the resource")
			f.key = key
			return o, f
		}
		if o, f := w.element(e.node, v, w.child(path, key)); o != matched {
			return conditionOff, w.prefix("conditional anchor mismatch: ", f)
		}
		return matched, nil
	case global:
		if !present {
			return matched, nil
		}
		if o, f := w.element(e.node, v, w.child(path, key)); o != matched {
			return globalOff, w.prefix("global anchor mismatch: ", f)
		}
		return matched, nil
	case equality:
		if !present {
			return matched, nil
		}
		return w.element(e.node, v, w.child(path, key))
	case negation:
		if !present {
			return matched, nil
		}
		if !w.explain {
			return mismatch | forbidden, nil
		}
		at := w.child(path, key)
		return w.fail(mismatch|forbidden, trace.Present, at, "negation anchor matched in resource: %s is not allowed", at)
	case existence:
		if !present {
			return matched, nil
		}
		return w.exists(w.settle(e.node), v, w.child(path, key))
	}
	n := w.settle(e.node)
	if n.isAnyValue() {
		if v != nil {
			return matched, nil
		}
		if !w.explain {
			return mismatch, nil
		}
		o, f := w.fail(mismatch, trace.Missing, path, "%s/%s not found", path, key)
		f.key = key
		return o, f
	}
	return w.element(n, v, w.child(path, key))
}

// isAnyValue reports whether n is the pattern "*".
func (n *node) isAnyValue() bool {
	return n.kind == scalarNode && n.scalar.kind == textScalar && n.scalar.text.shape == anyValue
}

// actual returns the key of m that the wildcard key of e matches: the first in order, or the wildcard text itself if
// there is none, so that the key counts as absent. It considers only keys with text values: labels and annotations have
// no others, and Kyverno ignores null values among them.
func (e *mapEntry) actual(m map[string]any) string {
	best, found := e.key, false
	for k, v := range m {
		if _, isText := v.(string); isText && (!found || k < best) && e.match.Match(k) {
			best, found = k, true
		}
	}
	return best
}
