package policyreview

import (
	"regexp"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/diag"
)

// refusal returns the text for the mistakes.
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

// fieldErrors returns the text for mistakes in the form of the API server's field errors: one alone, several as a list. Each is also
// returned as a warning. Further lines name the versions of Kubernetes that would accept an expression.
func fieldErrors(mistakes diag.List) (message string, each []string) {
	for _, d := range mistakes {
		text := d.Summary
		if d.Path != "" {
			text = d.Path + ": " + text
		}
		each = append(each, text)
	}
	message = "[" + strings.Join(each, ", ") + "]"
	if len(each) == 1 {
		message = each[0]
	}
	for _, d := range mistakes {
		if d.Newer {
			message += "\n  at " + d.Path + ": " + d.Hint
		}
	}
	return message, each
}

// form is the way in which the text of a mistake names its place.
type form uint8

const (
	byPath    form = iota // depends on the path
	afterPath             // the text follows the field path, as in the API server's own errors
	alone                 // the text names its place itself, or is the same for every place
	byFilter              // the text follows the filter, if it is about kinds
)

// forms are the forms of the codes that do not use byPath.
var forms = map[diag.Code]form{
	diag.Required:         afterPath,
	diag.InvalidValue:     afterPath,
	diag.UnsupportedValue: afterPath,
	diag.Forbidden:        afterPath,
	diag.TooLong:          afterPath,

	diag.UnknownVariable:       alone,
	diag.VariablePlace:         alone,
	diag.NoRequester:           alone,
	diag.ElementOutsideForeach: alone,
	diag.MissingRights:         alone,
	diag.UnknownRights:         alone,

	diag.BackgroundKind: byFilter,
}

var (
	contextPath  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(spec\.rules\[\d+\])\.(?:.*\.)?context\[`) })
	wholeAction  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^spec\.rules\[\d+\]\.(validate|generate)$`) })
	generatePath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^spec\.rules\[\d+\]\.generate\.`) })
)

// worded returns the text of a mistake with Kyverno's wording. Many texts follow a place, in a form that depends on the kind of mistake.
// placed reports whether the text contains all of Path.
func worded(d diag.Diagnostic) (text string, placed bool) {
	context, form := contextPath().FindStringSubmatch(d.Path), forms[d.Code]
	switch {
	case d.Path == "" || form == alone:
		return d.Summary, false
	case form == afterPath:
		return d.Path + ": " + d.Summary, true
	case form == byFilter && strings.HasSuffix(d.Path, ".kinds"):
		return "path: " + strings.Replace(d.Path, ".resources.kinds", ".kinds", 1) + ": " + d.Summary, false
	case context != nil:
		return "path: " + context[1] + ": " + d.Summary, false
	case wholeAction().MatchString(d.Path):
		return "path: " + d.Path + "..: " + d.Summary, false
	case generatePath().MatchString(d.Path):
		return "path: " + d.Path + ".: " + d.Summary, false
	}
	return d.Summary, false
}

// appendWarnings appends the texts of warnings. Only the warning about a deprecated action names its field.
func appendWarnings(to []string, warnings diag.List) []string {
	for _, d := range warnings {
		text := d.Summary
		if d.Code == diag.DeprecatedAction {
			text = d.Path + ": " + text
		}
		to = append(to, text)
	}
	return to
}
