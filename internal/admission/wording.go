package admission

import (
	"regexp"
	"strings"

	"github.com/ephor-dev/ephor/internal/diag"
)

// refusal words the mistakes.
func refusal(mistakes diag.List) string {
	var b strings.Builder
	for i, d := range mistakes {
		if i > 0 {
			b.WriteString("\n")
		}
		text, placed := worded(d)
		b.WriteString(text)
		if d.Path != "" && !placed {
			b.WriteString("\n  at " + d.Path)
		}
		if d.Hint != "" {
			b.WriteString("\n  " + d.Hint)
		}
	}
	return b.String()
}

var (
	// fieldMistake are the texts that follow the path of a field, as in the API server's own mistakes.
	fieldMistake = regexp.MustCompile(`^(Invalid value|Forbidden|Required value|Unsupported value|Too long)\b`)
	// placeless are those about variables, which are the same wherever the variable stands (§13.4), those that begin with
	// their place, and what is no mistake of the policy.
	placeless = regexp.MustCompile(`^(policy contains invalid variables|only select variables|variable '|path: |the rights of )`)
	// kindsMistake are those about kinds that name the filter (§13.3).
	kindsMistake = regexp.MustCompile(`^(wildcard policy not allowed in background mode|background scan enabled)`)

	contextPath  = regexp.MustCompile(`^(spec\.rules\[\d+\])\.(?:.*\.)?context\[`)
	wholeAction  = regexp.MustCompile(`^spec\.rules\[\d+\]\.(validate|generate)$`)
	generatePath = regexp.MustCompile(`^spec\.rules\[\d+\]\.generate\.`)
)

// worded is the text of a mistake as users of the policy language know it (language reference §13): many follow a place,
// each kind in a form of its own. placed tells that the text says all of Path.
func worded(d diag.Diagnostic) (text string, placed bool) {
	context := contextPath.FindStringSubmatch(d.Path)
	switch {
	case d.Path == "" || placeless.MatchString(d.Summary):
		return d.Summary, false
	case fieldMistake.MatchString(d.Summary):
		return d.Path + ": " + d.Summary, true
	case strings.HasSuffix(d.Path, ".kinds") && kindsMistake.MatchString(d.Summary):
		return "path: " + strings.Replace(d.Path, ".resources.kinds", ".kinds", 1) + ": " + d.Summary, false
	case context != nil:
		return "path: " + context[1] + ": " + d.Summary, false
	case wholeAction.MatchString(d.Path):
		return "path: " + d.Path + "..: " + d.Summary, false
	case generatePath.MatchString(d.Path):
		return "path: " + d.Path + ".: " + d.Summary, false
	}
	return d.Summary, false
}

// appendWarnings adds the texts of warnings. That of a deprecated value names its field (§1.0); others stand alone.
func appendWarnings(to []string, warnings diag.List) []string {
	for _, d := range warnings {
		text := d.Summary
		if strings.HasPrefix(text, "Validation failure actions ") {
			text = d.Path + ": " + text
		}
		to = append(to, text)
	}
	return to
}
