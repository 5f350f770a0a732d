package celrule

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Types returns a converter that uses the types of known kinds, and deduces those of other kinds from the objects. known may be nil.
func Types(known managedfields.TypeConverter) managedfields.TypeConverter {
	deduced := managedfields.NewDeducedTypeConverter()
	if known == nil {
		return deduced
	}
	return either{known, deduced}
}

// LaterTypes is Types for known types that take time to create. They are created in the background, so that the policy takes effect at
// once; the first rule that needs them waits. known must create them only once (sync.OnceValue).
func LaterTypes(known func() managedfields.TypeConverter) managedfields.TypeConverter {
	go func() {
		defer func() { _ = recover() }() // the rule that needs the types panics again, which is an error of that rule only
		known()
	}()
	return Types(later(known))
}

// later gets its converter at the first use.
type later func() managedfields.TypeConverter

// ObjectToTyped implements managedfields.TypeConverter.
func (l later) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return l().ObjectToTyped(o, options...)
}

// TypedToObject implements managedfields.TypeConverter.
func (l later) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	return l().TypedToObject(v)
}

// either uses the first converter, and the second for kinds that the first does not know.
type either struct{ first, second managedfields.TypeConverter }

// ObjectToTyped implements managedfields.TypeConverter.
func (e either) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	v, err := e.first.ObjectToTyped(o, options...)
	if err != nil && (runtime.IsNotRegisteredError(err) || strings.Contains(err.Error(), "no corresponding type")) { // the library exports no type for this error
		return e.second.ObjectToTyped(o, options...)
	}
	return v, err
}

// TypedToObject implements managedfields.TypeConverter.
func (e either) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	return e.second.TypedToObject(v)
}
