package intake

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/value"
)

// Packed is an object as a cache holds it that may hold many: the text of what intake reads of it, with the metadata that caches read. A tree
// takes several times the memory, in dozens of objects for the garbage collector.
type Packed struct {
	metav1.ObjectMeta // name, namespace, UID, resourceVersion and generation
	text              string
}

// lastApplied is the annotation of kubectl with another copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Pack returns the object packed, without managedFields, the annotation of kubectl, and the status except what kept names. It changes the object.
func Pack(u *unstructured.Unstructured, kept ...string) *Packed {
	version := u.GetResourceVersion()
	u.SetManagedFields(nil)
	u.SetResourceVersion("") // so that a change of the rest of the status changes no text
	if all := u.GetAnnotations(); all[lastApplied] != "" {
		delete(all, lastApplied)
		u.SetAnnotations(all)
	}
	if status, ok := u.Object["status"].(map[string]any); ok {
		rest := map[string]any{}
		for _, name := range kept {
			if v, ok := status[name]; ok {
				rest[name] = v
			}
		}
		if u.Object["status"] = rest; len(rest) == 0 {
			delete(u.Object, "status")
		}
	}
	out := &Packed{text: value.JSON(u.Object)}
	again := unstructured.Unstructured{Object: out.Object()} // its texts are parts of the text
	out.ObjectMeta = metav1.ObjectMeta{Name: again.GetName(), Namespace: again.GetNamespace(), UID: again.GetUID(), ResourceVersion: version, Generation: again.GetGeneration()}
	return out
}

// Object returns the object as a tree, which shares its texts with p.
func (p *Packed) Object() map[string]any {
	v, _ := value.NewReader(p.text).Any() // Pack wrote it
	object, _ := v.(map[string]any)
	if m, ok := object["metadata"].(map[string]any); ok && p.ResourceVersion != "" {
		m["resourceVersion"] = p.ResourceVersion
	}
	return object
}

// tree returns an object of a cache as a tree; nil for another type.
func tree(obj any) *unstructured.Unstructured {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return o
	case *Packed:
		return &unstructured.Unstructured{Object: o.Object()}
	}
	return nil
}
