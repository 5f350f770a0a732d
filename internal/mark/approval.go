package mark

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/value"
)

// approvalDomain is the domain of the seals of approvals.
const approvalDomain = "exception-approval"

// Approval returns what a seal proves that says: this user approved the exception as it is. It covers the UID, the generation, the content and the user: a copy
// of the exception has another UID, and a change another content.
func Approval(object map[string]any, user string) (domain string, parts []string) {
	m, _ := object["metadata"].(map[string]any)
	uid, _ := m["uid"].(string)
	generation, _ := value.Float(m["generation"]) // it rises with each change of the spec, so an earlier approval does not count again
	return approvalDomain, []string{uid, strconv.FormatInt(int64(generation), 10), ApprovedContent(object), user}
}

// ApprovedContent returns the digest of what an approval covers: the kind, the spec, and the labels and annotations that affect the exception.
func ApprovedContent(object map[string]any) string {
	m, _ := object["metadata"].(map[string]any)
	apiVersion, _ := object["apiVersion"].(string)
	group, _, _ := strings.Cut(apiVersion, "/")
	annotations := map[string]any{}
	all, _ := m["annotations"].(map[string]any)
	for k, v := range all {
		if strings.HasPrefix(k, names.Exceptions) {
			annotations[k] = v
		}
	}
	labels := map[string]any{} // the priority among exceptions
	given, _ := m["labels"].(map[string]any)
	for k, v := range given {
		if strings.HasPrefix(k, "polex.kyverno.io/") {
			labels[k] = v
		}
	}
	sum := sha256.Sum256([]byte(value.JSON([]any{group, object["kind"], object["spec"], annotations, labels})))
	return hex.EncodeToString(sum[:])
}
