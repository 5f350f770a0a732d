package status

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
)

// Desired returns the status that a policy should have; nil if the admission controller does not write its status. It preserves the
// fields of other controllers. families describes the kinds of policies; nil for Ephor's own. The error means that the object is not a
// readable policy.
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

// Of returns the description of a policy's status; nil if the admission controller does not write it.
func Of(families *compile.Registry, object *unstructured.Unstructured) *family.Status {
	f := families.FamilyOf(object.GetAPIVersion(), object.GetKind())
	if f == nil {
		return nil
	}
	return f.Status
}

// Condition returns the condition of a type in the status of the policy; nil if there is none.
func Condition(families *compile.Registry, object *unstructured.Unstructured, kind string) map[string]any {
	of := Of(families, object)
	if of == nil {
		return nil
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, append([]string{"status"}, of.Conditions...)...)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

// IsNew reports whether the status of the policy holds no readiness yet.
func IsNew(families *compile.Registry, object *unstructured.Unstructured) bool {
	of := Of(families, object)
	if of == nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, append([]string{"status"}, of.Conditions...)...)
	return len(conditions) == 0
}

// extended reports whether the status of the policy has fields for parts that were not evaluated.
func (w *Writer) extended(object *unstructured.Unstructured) bool {
	of := Of(w.Families, object)
	return of != nil && of.Extended
}
