package pattern

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ephor-dev/ephor/internal/trace"
	"github.com/ephor-dev/ephor/internal/value"
)

// fault says why and where something does not fit. Faults, paths and texts are made only by a walk that explains; the
// first walk passes nil and "" in their place.
type fault struct {
	key   string // for Missing: of the map at path
	text  string
	path  string
	part  *node // the part of the pattern that decided
	cause trace.Cause
}

// by remembers the part of the pattern that decided; the innermost one is listed first.
func (f *fault) by(n *node) {
	if f != nil && f.part == nil {
		f.part = n
	}
}

// decided is the field of the part of the pattern that decided, and what a scalar there says.
func (f *fault) decided() (field string, want any) {
	if f.part == nil {
		return "", nil
	}
	if f.part.kind == scalarNode {
		want = f.part.scalar.raw
	}
	return f.part.field, want
}

// fail makes a fault, charging its text to the budget.
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

// causeOf is the cause when v does not fit: Missing when there is no value at all.
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

// maxShown is how much of a value a message shows.
const maxShown = 64 << 10

// shown is v for a message that prints it: itself, unless it is too large.
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

// prefix puts text before that of f.
func (w *walk) prefix(text string, f *fault) *fault {
	if f == nil {
		return nil
	}
	out := *f
	w.word(&out, text+f.text)
	return &out
}

// reasons collects why parts of a map or list are not applicable.
type reasons []*fault

func (r *reasons) add(f *fault) {
	if f != nil {
		*r = append(*r, f)
	}
}

// join makes one fault of all reasons, at the place of the first.
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

// child is the path of key in the map at path; paths end with a slash.
func (w *walk) child(path, key string) string {
	if !w.explain {
		return ""
	}
	w.bytes(len(path) + len(key))
	return path + key + "/"
}

// index is the path of element i in the list at path.
func (w *walk) index(path string, i int) string {
	if !w.explain {
		return ""
	}
	w.bytes(len(path))
	return path + strconv.Itoa(i) + "/"
}

// note remembers for each tracked key of n whether any resource map had it.
func (w *walk) note(n *node, m map[string]any) {
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

// verdict words the outcome of a resource that does not fit. A key that a condition or existence anchor names and that
// no map had turns a failure into an error without a path; only a forbidden key keeps its path.
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
