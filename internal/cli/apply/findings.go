package apply

import (
	"strings"

	"ephor.invalid/ephor/internal/cli/sarif"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// findingsOf converts the results that fail, warn or end in an error to findings. Each finding is at the field of the resource that the
// result concerns.
func findingsOf(entries []report.Entry, pos func(path string) diag.Position) (out []sarif.Result) {
	for i := range entries {
		e := &entries[i]
		if !shown(e.Status) && e.Status != policy.StatusError {
			continue
		}
		level := "error"
		if e.Status == policy.StatusWarn {
			level = "warning"
		}
		rule := e.PolicyName()
		if name := e.RuleName(); name != "" {
			rule += "/" + name
		}
		message := e.Message
		if message == "" {
			message = "validation failed"
		}
		out = append(out, sarif.Result{Rule: rule, Level: level, Text: e.Resource.String() + ": " + message, Pos: pos(fieldPath(e.Path))})
	}
	return out
}

// fieldPath converts the path of a result, such as /spec/containers/0/image/, to the form of positions, such as spec.containers[0].image.
func fieldPath(path string) string {
	var b strings.Builder
	for _, part := range strings.Split(strings.Trim(path, "/"), "/") {
		switch {
		case part == "":
		case strings.Trim(part, "0123456789") == "":
			b.WriteString("[" + part + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(part)
		}
	}
	return b.String()
}

// writeFindings writes the findings and the mistakes in policies and resources to a file.
func writeFindings(path string, diags diag.List, findings []sarif.Result) error {
	var all []sarif.Result
	for _, d := range diags {
		all = append(all, sarif.Finding(code(d), d))
	}
	return sarif.WriteFile(path, "", nil, append(all, findings...))
}

// code returns the code of a mistake. Mistakes without a code share one.
func code(d diag.Diagnostic) string {
	if d.Code == "" {
		return "mistake"
	}
	return string(d.Code)
}
