package compile

import (
	"slices"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Exceptions returns the kinds of exceptions of all families, each once.
func (r *Registry) Exceptions() (all []*family.Exceptions) {
	for _, f := range r.Families() {
		if f.Exceptions != nil && !slices.Contains(all, f.Exceptions) {
			all = append(all, f.Exceptions)
		}
	}
	return all
}

// ExceptionsFrom returns the kinds of exceptions from policies of some kinds, each once; from all without kinds.
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

// ExceptionsOf returns the kind of exceptions that objects of the kind are, whatever their version; nil when they are none.
func (r *Registry) ExceptionsOf(apiVersion, kind string) *family.Exceptions {
	for _, f := range r.Families() {
		if x := f.Exceptions; x != nil && x.Owns(apiVersion, kind) {
			return x
		}
	}
	return nil
}

// OneException compiles one exception as a cluster reads it. Its Diags are the returned diagnostics, with positions; an exception with
// errors among them must not be used. It is nil when the object is no exception; then the diagnostics say so.
func (r *Registry) OneException(o Object) (*policy.Exception, diag.List) {
	return r.ExceptionWith(o, family.Options{})
}

// ExceptionWith compiles one exception as OneException does, for what the options say.
func (r *Registry) ExceptionWith(o Object, options family.Options) (*policy.Exception, diag.List) {
	x := r.ExceptionsOf(typeOf(o))
	if x == nil {
		return nil, notAPolicy(o)
	}
	e, diags := x.Compile(o.Value, options)
	e.APIVersion, e.Kind = typeOf(o)
	e.Kinds = r.kindsWith(x)
	locate(diags, o)
	return e, diags
}

// kindsWith returns the kinds of policies whose families have such exceptions.
func (r *Registry) kindsWith(x *family.Exceptions) (kinds []string) {
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

// OneException compiles one exception as a cluster reads it.
func OneException(o Object) (*policy.Exception, diag.List) { return Product.OneException(o) }

// ExceptionWith compiles one exception for what the options say.
func ExceptionWith(o Object, options family.Options) (*policy.Exception, diag.List) {
	return Product.ExceptionWith(o, options)
}
