package compile

import (
	"slices"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// Exceptions returns the kinds of exceptions of all families, without duplicates.
func (r *Registry) Exceptions() (all []*family.Exceptions) {
	for _, f := range r.Families() {
		if f.Exceptions != nil && !slices.Contains(all, f.Exceptions) {
			all = append(all, f.Exceptions)
		}
	}
	return all
}

// ExceptionsFrom returns the kinds of exceptions from policies of some kinds, without duplicates; without kinds, from all.
func (r *Registry) ExceptionsFrom(kinds family.Kinds) []*family.Exceptions {
	if kinds == nil {
		return r.Exceptions()
	}
	var all []*family.Exceptions
	for _, f := range r.Families() {
		of := func(k *family.Kind) bool { return slices.Contains(kinds, k) }
		if f.Exceptions != nil && slices.ContainsFunc(f.Kinds, of) && !slices.Contains(all, f.Exceptions) {
			all = append(all, f.Exceptions)
		}
	}
	return all
}

// ExceptionsOf returns the kind of exceptions of an object, in any version; nil if it is not an exception.
func (r *Registry) ExceptionsOf(apiVersion, kind string) *family.Exceptions {
	for _, f := range r.Families() {
		if x := f.Exceptions; x != nil && x.Owns(apiVersion, kind) {
			return x
		}
	}
	return nil
}

// OneException compiles one exception for a cluster. Its Diags are the returned diagnostics, with positions; do not use an exception with
// errors. The result is nil if the object is not an exception, which the diagnostics report.
func (r *Registry) OneException(o Object) (*policy.Exception, diag.List) {
	return r.ExceptionWith(o, family.Options{})
}

// ExceptionWith compiles one exception like OneException, with the options.
func (r *Registry) ExceptionWith(o Object, options family.Options) (*policy.Exception, diag.List) {
	x := r.ExceptionsOf(typeOf(o))
	if x == nil {
		return nil, notAPolicy(o)
	}
	e, diags := x.Compile(o.Value, options)
	diags = append(checkName(o), diags...)
	e.APIVersion, e.Kind = typeOf(o)
	e.Kinds = r.KindsWith(x)
	locate(diags, o)
	return e, diags
}

// KindsWith returns the kinds of policies whose families have such exceptions.
func (r *Registry) KindsWith(x *family.Exceptions) (kinds []string) {
	for _, f := range r.Families() {
		if f.Exceptions != x {
			continue
		}
		for _, k := range f.Kinds {
			kinds = append(kinds, k.Kind)
		}
	}
	return kinds
}

// The functions below are the methods of Product.

// OwnsException reports whether objects of the kind are exceptions that OneException compiles.
func OwnsException(apiVersion, kind string) bool {
	return Product.ExceptionsOf(apiVersion, kind) != nil
}

// OneException compiles one exception for a cluster.
func OneException(o Object) (*policy.Exception, diag.List) { return Product.OneException(o) }

// ExceptionWith compiles one exception with the options.
func ExceptionWith(o Object, options family.Options) (*policy.Exception, diag.List) {
	return Product.ExceptionWith(o, options)
}
