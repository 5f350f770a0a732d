package updaterequest

import (
	"maps"
)

// lastApplied is the annotation in which kubectl stores a copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// WithoutSecrets returns the object without its content if it is a Secret, because more users may read UpdateRequests than Secrets. The
// worker reads the trigger again. Other objects are returned unchanged.
func WithoutSecrets(object map[string]any) map[string]any {
	if !IsSecret(object) {
		return object
	}
	out := maps.Clone(object)
	delete(out, "data")
	delete(out, "stringData")
	if metadata, ok := out["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[lastApplied] != nil {
			metadata, annotations = maps.Clone(metadata), maps.Clone(annotations)
			delete(annotations, lastApplied)
			metadata["annotations"], out["metadata"] = annotations, metadata
		}
	}
	return out
}

// IsSecret reports whether the object is a Secret.
func IsSecret(object map[string]any) bool {
	return object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

// WithoutManagedFields returns the object without managedFields, which are often its largest part.
func WithoutManagedFields(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	if metadata["managedFields"] == nil {
		return object
	}
	out := maps.Clone(object)
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	out["metadata"] = metadata
	return out
}
