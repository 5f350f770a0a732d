package family

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Exceptions describes a kind of objects that exempt from policies of a family. Families may share one. Its values must not be changed.
//
// How exceptions apply to the rules of a family, and how results read, are the exempt.Terms of its rules.
type Exceptions struct {
	Group, Kind string
	// Resource is the name of the kind in URLs.
	Resource string
	// Versions are the served versions; the first is the one that is stored, read and written.
	Versions []string
	// Reviewed are the versions that the webhook for their review names: every one that was ever served, so that none is a way past it.
	Reviewed []string
	// Path is where that webhook asks, and Configuration the name of its webhook configuration.
	Path, Configuration string
	// FieldErrors: mistakes are worded as the API server's errors about fields, in one list.
	FieldErrors bool
	// Compile decodes, checks and compiles an exception. It always returns one, whose Diags are the returned diagnostics; one with errors
	// among them must not be used.
	Compile func(object map[string]any, o Options) (*policy.Exception, diag.List)
}

// GVK returns the kind in its first version.
func (x *Exceptions) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: x.Group, Version: x.Versions[0], Kind: x.Kind}
}

// Owns reports whether objects of the API version and kind are such exceptions, whether the version is served or not.
func (x *Exceptions) Owns(apiVersion, kind string) bool {
	group, _, ok := strings.Cut(apiVersion, "/")
	return ok && group == x.Group && kind == x.Kind
}
