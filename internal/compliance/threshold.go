package compliance

import (
	"fmt"
	"slices"
	"strings"
)

// Threshold defines which results make a check fail.
type Threshold []term

// term is reached by a result with the status and with the severity or a worse one.
type term struct {
	text     string
	status   Status
	severity string // empty for any
}

// ParseThreshold parses terms: RESULT (fail, error, warn, skip, pass), SEVERITY (critical, high, medium, low, info: a failure with
// that severity or a worse one), or RESULT:SEVERITY. Failures of policies without a severity reach no term with a severity.
func ParseThreshold(terms []string) (Threshold, error) {
	var out Threshold
	for _, text := range terms {
		status, severity, both := strings.Cut(text, ":")
		if !both && slices.Contains(Severities, text) {
			status, severity = string(Fail), text
		}
		if !slices.Contains(Statuses, Status(status)) || (both || severity != "") && !slices.Contains(Severities, severity) {
			return nil, fmt.Errorf("%q is not a result (fail, error, warn, skip, pass), a severity (critical, high, medium, low, info) or RESULT:SEVERITY", text)
		}
		out = append(out, term{text, Status(status), severity})
	}
	return out, nil
}

// Reached returns the terms that the results reach, each with the number of results.
func (t Threshold) Reached(s Summary) []string {
	var out []string
	for _, one := range t {
		n := 0
		for _, l := range s.BySeverity {
			if one.severity == "" || rank(l.Name) <= rank(one.severity) {
				n += l.Of(one.status)
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%s (%d)", one.text, n))
		}
	}
	return out
}
