package updaterequest

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// AnnotationHeld names the rules whose conditions held at admission, each with the version of its policy. The conditions read the content of a
// Secret, which UpdateRequests do not hold, so they cannot be evaluated again.
const AnnotationHeld = names.Domain + "conditions-held"

// Hold notes that the conditions of a rule held.
func Hold(u metav1.Object, p *policy.Program, rule string) {
	held := heldBy(u)
	held[rule] = versionOf(p)
	store(u, held)
}

// KeepHeld adds the notes of the earlier UpdateRequest about the rules that were added to the later one.
func KeepHeld(earlier, later metav1.Object, added []kyvernov2.RuleContext) {
	before, held := heldBy(earlier), heldBy(later)
	for _, r := range added {
		if version, ok := before[r.Rule]; ok {
			held[r.Rule] = version
		}
	}
	if len(held) > 0 {
		store(later, held)
	}
}

// Held reports whether the conditions of a rule of this version of the policy held.
func Held(u metav1.Object, p *policy.Program, rule string) bool {
	version, ok := heldBy(u)[rule]
	return ok && version == versionOf(p)
}

func versionOf(p *policy.Program) string { return p.UID + "/" + strconv.FormatInt(p.Generation, 10) }

func heldBy(u metav1.Object) map[string]string {
	out := map[string]string{}
	if err := json.Unmarshal([]byte(u.GetAnnotations()[AnnotationHeld]), &out); err != nil || out == nil {
		return map[string]string{}
	}
	return out
}

func store(u metav1.Object, held map[string]string) {
	text, err := json.Marshal(held)
	if err != nil {
		return // it holds texts only
	}
	annotate(u, AnnotationHeld, string(text))
}

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

// AnnotationRound names the round for existing objects that an UpdateRequest belongs to: the same work for another round is other work.
const AnnotationRound = names.Domain + "round"

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
