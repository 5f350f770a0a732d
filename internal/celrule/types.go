package celrule

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Types knows the types of known kinds, and deduces those of others from the objects themselves. known may be nil.
func Types(known managedfields.TypeConverter) managedfields.TypeConverter {
	deduced := managedfields.NewDeducedTypeConverter()
	if known == nil {
		return deduced
	}
	return either{known, deduced}
}

// LaterTypes is Types with known types that take time to make. They are made in the background, and the first that needs them waits: a policy
// is in force before. known makes them once (sync.OnceValue).
func LaterTypes(known func() managedfields.TypeConverter) managedfields.TypeConverter {
	go func() {
		defer func() { _ = recover() }() // the rule that needs the types panics again, which is an error of that rule
		known()
	}()
	return Types(later(known))
}

// later asks for a converter when it is used.
type later func() managedfields.TypeConverter

// ObjectToTyped implements the library's interface.
func (l later) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return l().ObjectToTyped(o, options...)
}

// TypedToObject implements the library's interface.
func (l later) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	return l().TypedToObject(v)
}

// either asks one converter, and another about what the first does not know.
type either struct{ first, second managedfields.TypeConverter }

// ObjectToTyped implements the library's interface.
func (e either) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	v, err := e.first.ObjectToTyped(o, options...)
	if err != nil && (runtime.IsNotRegisteredError(err) || strings.Contains(err.Error(), "no corresponding type")) { // it has no exported type
		return e.second.ObjectToTyped(o, options...)
	}
	return v, err
}

// TypedToObject implements the library's interface.
func (e either) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	return e.second.TypedToObject(v)
}
