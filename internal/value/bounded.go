package value

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Expressions can build values that contain the same part many times: thirty lists, each of which contains the previous one twice, take a
// few hundred bytes, but a walk over them visits a billion items. The functions in this file bound such walks.

// The weights of an item and an object in addition to their text. A walk over an object takes longer than its text.
const (
	nodeLength = 8
	mapLength  = 48
)

// TextLength estimates the length of the JSON text of v. It stops beyond limit, so it takes no longer than that.
func TextLength(v any, limit int) int {
	left := limit
	textLength(v, &left)
	return limit - left
}

func textLength(v any, left *int) {
	*left -= nodeLength
	switch x := v.(type) {
	case string:
		*left -= len(x)
	case []any:
		for _, e := range x {
			if *left < 0 {
				return
			}
			textLength(e, left)
		}
	case map[string]any:
		*left -= mapLength
		for k, e := range x {
			if *left < 0 {
				return
			}
			*left -= len(k) + nodeLength
			textLength(e, left)
		}
	}
}

// EqualWithin is Equal for values that may be large: it compares at most *nodes items, and subtracts the compared ones from it. finished is
// false if they were not enough; then the result is unknown.
func EqualWithin(a, b any, nodes *int) (equal, finished bool) {
	if *nodes--; *nodes < 0 {
		return false, false
	}
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		*nodes -= len(x) / 64
		return ok && x == y, true
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false, true
		}
		*nodes -= 2 * len(x) // a member takes three times as long as an item
		for k, v := range x {
			w, ok := y[k]
			if !ok {
				return false, true
			}
			if equal, finished := EqualWithin(v, w, nodes); !equal || !finished {
				return false, finished
			}
		}
		return true, true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false, true
		}
		for i := range x {
			if equal, finished := EqualWithin(x[i], y[i], nodes); !equal || !finished {
				return false, finished
			}
		}
		return true, true
	}
	return Equal(a, b), true
}

// Print returns fmt.Sprint(v), as messages show values. For a value that is larger than limit it returns about the first limit bytes and
// "…".
func Print(v any, limit int) string {
	if s, ok := v.(string); ok {
		return Clip(s, limit)
	}
	if TextLength(v, limit) <= limit {
		return fmt.Sprint(v)
	}
	left := limit
	return Clip(fmt.Sprint(prune(v, &left)), limit) + "…"
}

// MaxMessage bounds a text for people in bytes: the message of a result, an error of a request, a mistake in a policy. Such a text quotes
// users' data, and is shown to users and written to reports, events, logs and the audit log.
const MaxMessage = 8 << 10

// Message returns at most the first MaxMessage bytes of a text for people, cut between characters, and "…".
func Message(s string) string { return Clip(s, MaxMessage) }

// Clip returns s, or its beginning and "…" if it is longer than limit bytes.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// prune copies as much of v as the limit allows.
func prune(v any, left *int) any {
	*left -= nodeLength
	switch x := v.(type) {
	case string:
		s := Clip(x, max(*left, 0))
		*left -= len(s)
		return s
	case []any:
		out := []any{}
		for _, e := range x {
			if *left < 0 {
				break
			}
			out = append(out, prune(e, left))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if *left < 0 {
				break
			}
			*left -= len(k)
			out[k] = prune(x[k], left)
		}
		return out
	}
	return v
}
