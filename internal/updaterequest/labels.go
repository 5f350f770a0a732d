package updaterequest

import (
	"strings"
)

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
