package updaterequest

import (
	"encoding/json"
	"maps"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
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
	annotations := maps.Clone(u.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationHeld] = string(text)
	u.SetAnnotations(annotations)
}
