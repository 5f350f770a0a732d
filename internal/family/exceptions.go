package family

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Exceptions describes a kind of objects that exempt from policies of a family. Families may share one. Its values must not be changed.
//
// The exempt.Terms of the rules define how exceptions apply and how results read.
type Exceptions struct {
	Group, Kind string
	// Resource is the name of the kind in URLs.
	Resource string
	// Versions are the served versions; the first one is stored, read and written.
	Versions []string
	// Reviewed are the versions in the webhook for their review: every one that was ever served, so that no version bypasses it.
	Reviewed []string
	// Path is the path of that webhook, and Configuration the name of its webhook configuration.
	Path, Configuration string
	// FieldErrors: mistakes have the form of the API server's field errors, in one list.
	FieldErrors bool
	// Compile decodes, checks and compiles an exception. It always returns one, whose Diags are the returned diagnostics; an exception with
	// errors must not be used.
	Compile func(object map[string]any, o Options) (*policy.Exception, diag.List)
}

// GVK returns the kind in its first version.
func (x *Exceptions) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: x.Group, Version: x.Versions[0], Kind: x.Kind}
}

// Owns reports whether objects of the API version and kind are such exceptions, including versions that are not served.
func (x *Exceptions) Owns(apiVersion, kind string) bool {
	group, _, ok := strings.Cut(apiVersion, "/")
	return ok && group == x.Group && kind == x.Kind
}
