package status

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/family"
)

// Desired returns the status that a policy should have; nil for one whose status the admission controller does not write. What other
// controllers report is kept. The families are those of the policies; nil for those of Ephor. The error means that the object is not a
// policy that can be read.
func Desired(families *compile.Registry, object *unstructured.Unstructured, state family.State) (map[string]any, error) {
	of := Of(families, object)
	if of == nil {
		return nil, nil
	}
	s, err := of.Make(object.Object, state)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return s, nil
}

// Of describes the status of a policy; nil for one whose status the admission controller does not write.
func Of(families *compile.Registry, object *unstructured.Unstructured) *family.Status {
	f := families.FamilyOf(object.GetAPIVersion(), object.GetKind())
	if f == nil {
		return nil
	}
	return f.Status
}

// IsNew reports whether the readiness of the policy is not known yet.
func IsNew(families *compile.Registry, object *unstructured.Unstructured) bool {
	of := Of(families, object)
	if of == nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, append([]string{"status"}, of.Conditions...)...)
	return len(conditions) == 0
}

// extended reports whether the status of the policy has fields for what was left undone.
func (w *Writer) extended(object *unstructured.Unstructured) bool {
	of := Of(w.Families, object)
	return of != nil && of.Extended
}
