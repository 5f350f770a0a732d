package family

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
)

// Exceptions describes a kind of objects that exempt from policies of a family. Families may share one. Its values must not be changed.
//
// The exempt.Terms of the rules define how exceptions apply and how their results are worded.
type Exceptions struct {
	Group, Kind string
	// Resource is the name of the kind in URLs.
	Resource string
	// Versions are the served versions. The first one is the stored version, which Ephor reads and writes.
	Versions []string
	// Reviewed are the versions in the webhook that reviews exceptions: every version that was ever served, so that no version bypasses the
	// review.
	Reviewed []string
	// Path is the path of that webhook, and Configuration the name of its webhook configuration.
	Path, Configuration string
	// FieldErrors: mistakes are reported as the API server reports field errors, in one list.
	FieldErrors bool
	// Compile decodes, checks and compiles an exception. It always returns an exception, whose Diags are the returned diagnostics. Do not
	// use an exception with errors among them.
	Compile func(object map[string]any, o Options) (*policy.Exception, diag.List)
}

// GVK returns the kind in its first version.
func (x *Exceptions) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: x.Group, Version: x.Versions[0], Kind: x.Kind}
}

// Owns reports whether objects of the API version and kind are such exceptions. It also accepts versions that are not served.
func (x *Exceptions) Owns(apiVersion, kind string) bool {
	group, _, ok := strings.Cut(apiVersion, "/")
	return ok && group == x.Group && kind == x.Kind
}
