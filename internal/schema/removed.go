package schema

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"ephor.invalid/ephor/internal/kubeversion"
)

// Removed returns the version of Kubernetes that no longer serves a kind; ok is false if none is known.
func Removed(gvk schema.GroupVersionKind) (in kubeversion.Minor, ok bool) {
	object, err := scheme.Scheme.New(gvk)
	if err != nil {
		return 0, false
	}
	lifecycle, ok := object.(interface{ APILifecycleRemoved() (major, minor int) })
	if !ok {
		return 0, false
	}
	major, minor := lifecycle.APILifecycleRemoved()
	if major != 1 || minor <= 0 || minor > 255 {
		return 0, false
	}
	return kubeversion.Minor(minor), true
}
