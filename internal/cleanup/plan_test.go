package cleanup

import (
	"reflect"
	"testing"
)

// If several targets name a resource, it is listed by all their names, or as a whole if one target has no names.
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
