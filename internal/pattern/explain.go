package pattern

import (
	"fmt"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/value"
)

// fault describes why and where a resource does not match. Only a walk that explains creates faults, paths and texts; the first
// walk passes nil and "" in their place.
type fault struct {
	key   string // for Missing: the missing key of the map at path
	text  string
	path  string
	part  *node // the part of the pattern that decided
	cause trace.Cause
}

// by records the part of the pattern that decided; the innermost part stays.
func (f *fault) by(n *node) {
	if f != nil && f.part == nil {
		f.part = n
	}
}

// decided returns the field of the deciding part of the pattern, and its value if it is a scalar.
func (f *fault) decided() (field string, want any) {
	if f.part == nil {
		return "", nil
	}
	if f.part.kind == scalarNode {
		want = f.part.scalar.raw
	}
	return f.part.field, want
}

// fail creates a fault and charges its text to the budget.
func (w *walk) fail(o outcome, cause trace.Cause, path, format string, args ...any) (outcome, *fault) {
	f := &fault{cause: cause, path: path}
	w.word(f, fmt.Sprintf(format, args...))
	return o, f
}

// word sets the text of f.
func (w *walk) word(f *fault, text string) {
	w.bytes(len(text))
	f.text = text
}

// causeOf returns the cause for a v that does not match: Missing if there is no value at all, otherwise other.
func causeOf(v any, other trace.Cause) trace.Cause {
	if v == nil {
		return trace.Missing
	}
	return other
}

// bytes charges n bytes of text to the budget.
func (w *walk) bytes(n int) {
	if err := w.meter.Bytes(n); err != nil && w.err == nil {
		w.err = err
	}
}

// maxShown bounds the part of a value that a message shows.
const maxShown = 64 << 10

// shown returns v in the form for a message: v itself, unless it is too large.
func shown(v any) any {
	switch x := v.(type) {
	case string:
		if len(x) <= maxShown {
			return v
		}
	case map[string]any, []any:
	default:
		return v
	}
	return value.Print(v, maxShown)
}

// prefix adds text before the text of f.
func (w *walk) prefix(text string, f *fault) *fault {
	if f == nil {
		return nil
	}
	out := *f
	w.word(&out, text+f.text)
	return &out
}

// reasons collects the reasons why parts of a map or list do not apply.
type reasons []*fault

func (r *reasons) add(f *fault) {
	if f != nil {
		*r = append(*r, f)
	}
}

// join joins all reasons into one fault, at the place of the first.
func (w *walk) join(r *reasons) *fault {
	if len(*r) == 0 {
		return nil
	}
	texts := make([]string, len(*r))
	for i, f := range *r {
		texts[i] = f.text
	}
	out := *(*r)[0]
	w.word(&out, strings.Join(texts, "; "))
	return &out
}

// child returns the path of key in the map at path; paths end with a slash.
func (w *walk) child(path, key string) string {
	if !w.explain {
		return ""
	}
	w.bytes(len(path) + len(key))
	return path + key + "/"
}

// index returns the path of element i in the list at path.
func (w *walk) index(path string, i int) string {
	if !w.explain {
		return ""
	}
	w.bytes(len(path))
	return path + strconv.Itoa(i) + "/"
}

// recordSeen records for each tracked key of n whether any resource map had it.
func (w *walk) recordSeen(n *node, m map[string]any) {
	if !w.notes {
		return
	}
	for _, e := range n.tracks {
		if w.seen == nil {
			w.seen = map[string]bool{}
		}
		if w.seen[e.full] {
			continue
		}
		key := e.key
		if e.glob {
			key = e.actual(m)
		}
		_, w.seen[e.full] = m[key]
	}
}

// verdict returns the verdict for a resource that does not match. If a condition or existence anchor names a key that no map
// had, a failure becomes an error without a path; only a forbidden key keeps its path.
func (w *walk) verdict(o outcome, f *fault) Verdict {
	if o == matched {
		return Verdict{}
	}
	if o.skips() {
		return Verdict{Status: Skip, Message: f.text}
	}
	if o&forbidden != 0 {
		return Verdict{Status: Fail, Path: f.path, Message: f.text}
	}
	for _, present := range w.seen {
		if !present {
			return Verdict{Status: Error, Message: f.text}
		}
	}
	if f.path == "" {
		return Verdict{Status: Error, Message: f.text}
	}
	return Verdict{Status: Fail, Path: f.path, Message: f.text}
}
