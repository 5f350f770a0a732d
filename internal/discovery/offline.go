package discovery

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/kinds"
)

// ResourceOf is the main resource of a kind where no API server can be asked. It is exact for the kinds of Kubernetes and for
// those whose definition follows the naming convention of the API.
func ResourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	return gvk.GroupVersion().WithResource(kinds.Plural(gvk.Kind))
}
