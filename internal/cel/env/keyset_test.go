package env

import (
	"strings"
	"testing"
)

// An answer of a key server that is no key set is an error, and never an empty set of keys.
func TestKeysOf(t *testing.T) {
	for _, c := range []struct {
		answer any
		error  string
	}{
		{nil, "the server answers with status <nil>"},
		{map[string]any{"statusCode": int64(404), "keys": []any{}}, "the server answers with status 404"},
		{map[string]any{"statusCode": int64(200)}, "the answer has no list of keys"},
		{map[string]any{"statusCode": int64(200), "keys": []any{"a"}}, "keys[0]: it is not an object"},
	} {
		if _, err := keysOf(c.answer); err == nil || !strings.Contains(err.Error(), c.error) {
			t.Errorf("%v: %v, want %q", c.answer, err, c.error)
		}
	}
}
