package policy

import "slices"

// The annotations of a policy that reports contain.
const (
	annotationScored   = "policies.kyverno.io/scored"
	annotationSeverity = "policies.kyverno.io/severity"
	annotationCategory = "policies.kyverno.io/category"
)

var severities = []string{"critical", "high", "medium", "low", "info"}

// Annotate applies the policy's annotations that affect its results.
func (s *Settings) Annotate(annotations map[string]string) {
	s.Scored = annotations[annotationScored] != "false"
	s.Category = annotations[annotationCategory]
	if severity := annotations[annotationSeverity]; slices.Contains(severities, severity) {
		s.Severity = severity
	}
}
