package value

import (
	"fmt"
	"strings"
	"testing"
)

func TestChildren(t *testing.T) {
	list := []any{"x", map[string]any{"c": nil}}
	object := map[string]any{"b": list, "a": int64(1)}
	for _, c := range []struct {
		of         any
		path, want string
	}{
		{object, "", "a=1 b=[x map[c:<nil>]]"}, {object, "spec", "spec.a=1 spec.b=[x map[c:<nil>]]"},
		{list, "spec.b", "spec.b[0]=x spec.b[1]=map[c:<nil>]"}, {"text", "a", ""}, {nil, "a", ""}, {[]any(nil), "a", ""},
	} {
		var got []string
		for path, v := range Children(c.of, c.path) {
			got = append(got, fmt.Sprintf("%s=%v", path, v))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%v at %q: %s, want %s", c.of, c.path, text, c.want)
		}
	}
	for path := range Children(object, "") {
		if path != "a" {
			t.Errorf("%s after the caller stopped", path)
		}
		break
	}
}
