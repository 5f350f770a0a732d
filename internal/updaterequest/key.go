package updaterequest

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/names"
)

// LabelKey is the label of UpdateRequests for one trigger. Its value is the key by which replicas share the work, so that the
// responsible replica can be found without reading the UpdateRequests.
const LabelKey = names.Domain + "work-key"

// Key returns the key of the work for a policy and a trigger. It is the same for all rules of the policy, since they share one
// UpdateRequest. It is short enough for a label.
func Key(policyKey string, trigger kyvernov2.ResourceSpec) string {
	sum := sha256.Sum256([]byte(policyKey + "\x00" + TriggerID(trigger)))
	return hex.EncodeToString(sum[:10])
}

// TriggerID identifies a trigger by its UID, or by its kind and name if it has no UID yet.
func TriggerID(trigger kyvernov2.ResourceSpec) string {
	if trigger.UID != "" {
		return string(trigger.UID)
	}
	return Text(trigger)
}

// KeyOf returns the key of an UpdateRequest from its metadata; it is empty if several replicas may share the work.
func KeyOf(o metav1.Object) string { return o.GetLabels()[LabelKey] }

// KeyOfRules returns the key of an UpdateRequest from its rules and triggers; it is empty if several replicas share the work.
func KeyOfRules(u *kyvernov2.UpdateRequest) string {
	key := ""
	for _, r := range Rules(&u.Spec) {
		switch k := Key(u.Spec.Policy, r.Trigger); key {
		case "":
			key = k
		case k:
		default:
			return ""
		}
	}
	return key
}

// Text returns the text for a resource in messages and names: apiVersion/kind/namespace/name.
func Text(r kyvernov2.ResourceSpec) string {
	return strings.Join([]string{r.APIVersion, r.Kind, r.Namespace, r.Name}, "/")
}

// Name returns the name of the UpdateRequest for a key with these parts.
func Name(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00\x00")))
	return "ur-" + hex.EncodeToString(sum[:10])
}

// The labels with which UpdateRequests are found.
const (
	LabelGeneratePolicy = "generate.kyverno.io/policy-name"
	// LabelSource marks work for all copies of spec.resource.
	LabelSource = "generate.kyverno.io/clone-source"
	// LabelMutate is the prefix of the labels for mutate-existing work.
	LabelMutate       = "mutate.updaterequest.kyverno.io/"
	LabelMutatePolicy = LabelMutate + "policy-name"
)

// LabelValue returns a valid label value for a name, since names may be longer and contain colons.
func LabelValue(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, s)
	return strings.Trim(s[:min(len(s), 63)], "-_.")
}
