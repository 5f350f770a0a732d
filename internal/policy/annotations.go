package policy

import "slices"

// Annotations of a policy that reports show.
const (
	annotationScored   = "policies.kyverno.io/scored"
	annotationSeverity = "policies.kyverno.io/severity"
	annotationCategory = "policies.kyverno.io/category"
)

var severities = []string{"critical", "high", "medium", "low", "info"}

// Annotate takes in what a policy's annotations say about its results.
func (s *Settings) Annotate(annotations map[string]string) {
	s.Scored = annotations[annotationScored] != "false"
	s.Category = annotations[annotationCategory]
	if severity := annotations[annotationSeverity]; slices.Contains(severities, severity) {
		s.Severity = severity
	}
}
