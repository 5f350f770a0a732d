package schema

import "k8s.io/apimachinery/pkg/runtime/schema"

// TypeOf returns the type of a field of a kind: list, map, string, integer, number or boolean; empty if it is not known. names is the path of the
// field; an empty name stands for the elements of a list.
func (k *Kinds) TypeOf(kind schema.GroupVersionKind, names []string) string {
	found := k.Find(kind.Group, kind.Version, kind.Kind, "")
	if len(found) != 1 {
		return ""
	}
	t := found[0].Type
	for _, name := range names {
		ok := t != Any
		if name == "" {
			t, ok = t.Element()
		} else if ok {
			t, ok = t.Field(name)
		}
		if !ok || t == nil {
			return ""
		}
	}
	if _, list := t.Element(); list && t != Any {
		return "list"
	}
	if _, has := t.Field("x"); len(t.Names()) > 0 || has && t != Any { // with known keys, or with any
		return "map"
	}
	return Scalar(t)
}
