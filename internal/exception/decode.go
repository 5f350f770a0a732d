package exception

import (
	"strings"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/strict"
)

// Group and Kind are those of the objects that the package reads.
const (
	Group = "kyverno.io"
	Kind  = "PolicyException"
)

// Versions are the served versions, whose fields are the same; the first is stored.
var Versions = []string{"v2", "v2beta1"}

// Owns reports whether the object is a PolicyException of the package's group, whatever its version.
func Owns(apiVersion, kind string) bool {
	group, _, ok := strings.Cut(apiVersion, "/")
	return ok && group == Group && kind == Kind
}

// Decode reads a PolicyException of any served version. Unknown fields and values of the wrong type are diagnostics at
// their field paths, and everything else is decoded.
func Decode(object map[string]any) (*kyvernov2.PolicyException, diag.List) {
	e := &kyvernov2.PolicyException{}
	diags := strict.Decode(object, e)
	_, version, _ := strings.Cut(e.APIVersion, "/")
	for _, v := range Versions {
		if v == version {
			return e, diags
		}
	}
	diags.Errorf("apiVersion", "no version %q of %s in group %s", version, Kind, Group)
	diags.Hint("served versions are %s", strings.Join(Versions, " and "))
	return e, diags
}
