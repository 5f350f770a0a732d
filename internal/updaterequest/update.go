package updaterequest

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/value"
)

// AnnotationUpdate says whether an update changes its object, for UpdateRequests that do not hold the content of both objects: those for
// Secrets and for large objects. An update without changes is never stored, so no work may wait for it.
const AnnotationUpdate = names.Domain + "update"

const unchanged, changedFrom = "unchanged", "changed from "

// NoteUpdate notes whether an update changes its object.
func NoteUpdate(u metav1.Object, old, object map[string]any) {
	text := unchanged
	if !value.Equal(WithoutManagedFields(old), WithoutManagedFields(object)) {
		text = changedFrom + Version(old)
	}
	annotate(u, AnnotationUpdate, text)
}

// Update returns what NoteUpdate noted: whether there are changes, and the version that they replace.
func Update(u metav1.Object) (changed bool, replaces string, known bool) {
	text := u.GetAnnotations()[AnnotationUpdate]
	replaces, changed = strings.CutPrefix(text, changedFrom)
	if !changed {
		replaces = ""
	}
	return changed, replaces, changed || text == unchanged
}

// Version returns the resourceVersion of an object; empty if it has none.
func Version(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	return version
}

// ofRequest are the annotations about the request of an UpdateRequest. A later request replaces them.
var ofRequest = []string{AnnotationHeld, AnnotationUpdate}

// ReplaceNotes replaces the notes about the request of an UpdateRequest by those of a later one.
func ReplaceNotes(u, later metav1.Object) {
	annotations := maps.Clone(u.GetAnnotations())
	for _, name := range ofRequest {
		delete(annotations, name)
	}
	u.SetAnnotations(annotations)
	for name, text := range later.GetAnnotations() {
		annotate(u, name, text)
	}
}

func annotate(u metav1.Object, name, text string) {
	annotations := maps.Clone(u.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = text
	u.SetAnnotations(annotations)
}
