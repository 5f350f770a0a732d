package cleanup

import (
	"reflect"
	"testing"
)

// A resource that several targets name is listed by the names of all of them, or as a whole when one target names none.
func TestListedNames(t *testing.T) {
	for _, c := range []struct{ first, second, want []string }{
		{[]string{"a"}, []string{"b", "a"}, []string{"a", "b"}},
		{[]string{"a"}, nil, nil},
		{nil, []string{"a"}, nil},
	} {
		r := listed{names: c.first}
		r.add(c.second, "")
		if !reflect.DeepEqual(r.names, c.want) {
			t.Errorf("%v and %v: %v, want %v", c.first, c.second, r.names, c.want)
		}
	}
}
