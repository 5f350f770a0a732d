package execute

import (
	"cmp"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// stored returns the admission request of the UpdateRequest if it is for the trigger itself. It returns nil if the request is for
// another object or is missing.
func (t *task) stored() *kyvernov2.AdmissionRequest {
	r := t.u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
	if r == nil || r.Operation == "" {
		return nil
	}
	if r.SubResource != "" {
		return r
	}
	if r.Kind.Group != schema.FromAPIVersionAndKind(t.Trigger.APIVersion, t.Trigger.Kind).Group || r.Kind.Kind != t.Trigger.Kind {
		return nil // labels may hold any UID: the object has another kind
	}
	for _, raw := range []runtime.RawExtension{r.Object, r.OldObject} {
		metadata, _ := decode(raw)["metadata"].(map[string]any)
		if metadata == nil {
			continue
		}
		if uid, _ := metadata["uid"].(string); uid != "" && t.Trigger.UID != "" {
			if uid == string(t.Trigger.UID) {
				return r
			}
			continue
		}
		namespace, _ := metadata["namespace"].(string)
		if name, _ := metadata["name"].(string); name != "" && name == t.Trigger.Name &&
			(namespace == t.Trigger.Namespace || namespace == "" && r.Namespace == t.Trigger.Namespace) {
			return r
		}
	}
	if len(r.Object.Raw) == 0 && len(r.OldObject.Raw) == 0 && r.Name != "" && r.Name == t.Trigger.Name && t.Trigger == updaterequest.Canonical(t.u.Spec.Resource) &&
		(r.Namespace == t.Trigger.Namespace || t.Trigger.Namespace == "") {
		return r // the objects were too large to be stored
	}
	return nil
}

func decode(raw runtime.RawExtension) map[string]any {
	if len(raw.Raw) == 0 {
		return nil
	}
	v, err := value.DecodeJSON(raw.Raw)
	if err != nil {
		return nil
	}
	m, _ := v.(map[string]any)
	return m
}

// awaits reports whether the task still has to wait until the API server has stored the update of an object, whose live version is given.
// The API server has not stored it if the live object has the version that the update replaces. An update without changes is never stored.
// UpdateRequests of earlier releases do not always say whether there are changes; then the task waits as for changes.
func (t *task) awaits(r *kyvernov2.AdmissionRequest, liveVersion string) bool {
	if r.Operation != "UPDATE" || t.waited >= patience {
		return false
	}
	changed, replaces := t.changes(r)
	return changed && (replaces == "" || replaces == liveVersion)
}

// changes reports whether an update changes its object, and returns the version that it replaces; empty if unknown.
func (t *task) changes(r *kyvernov2.AdmissionRequest) (changed bool, replaces string) {
	changed, replaces, known := updaterequest.Update(t.u)
	if !known {
		old, object := decode(r.OldObject), decode(r.Object)
		replaces = cmp.Or(updaterequest.Version(old), updaterequest.Version(object))
		changed = old == nil || object == nil || updaterequest.IsSecret(object) || !value.Equal(old, object)
	}
	return changed, replaces
}

// disturbed returns the object of the task's request in its former state. Its identity is taken from the request, not from the content of
// the object.
func (t *task) disturbed() *unstructured.Unstructured {
	r := t.u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
	u := &unstructured.Unstructured{Object: decode(r.OldObject)}
	if u.Object == nil {
		u.Object = map[string]any{}
	}
	if u.GetName() == "" || r.Name != "" {
		u.SetName(r.Name)
	}
	u.SetNamespace(r.Namespace)
	u.SetGroupVersionKind(schema.GroupVersionKind(r.Kind))
	if r.Kind.Group == "" && r.Kind.Kind == "Namespace" {
		u.SetNamespace("") // its requests name it as their namespace, too
	}
	return u
}

// before returns the trigger as it was in the request of the task: the object before an update or a deletion, or the object to create. It
// is nil if the request is for another object.
func (t *task) before() map[string]any {
	r := t.stored()
	switch {
	case r == nil || r.SubResource != "":
		return nil
	case r.Operation == admissionv1.Create:
		return decode(r.Object)
	}
	return decode(r.OldObject)
}
