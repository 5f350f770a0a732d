package load

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/source"
)

// PassedBy counts what is beside the policies in a directory or repository and is no policy: tests, resources, values, templates of Helm.
// One sentence reports them.
type PassedBy struct {
	objects, templates, documents, converted int
	// Named also counts what is in files that the user named, such as the files of a commit.
	Named bool
}

// Files counts the warnings about files without objects, and returns the other diagnostics.
func (p *PassedBy) Files(diags diag.List) diag.List {
	return slices.DeleteFunc(diags, func(d diag.Diagnostic) bool {
		switch {
		case d.Code == diag.HelmTemplate && d.Severity == diag.Warning:
			p.templates++
		case d.Code == diag.NotAnObject && (p.Named || d.Severity == diag.Warning):
			p.documents++
		default:
			return false
		}
		return true
	})
}

// Converted counts a policy that is written in CEL already.
func (p *PassedBy) Converted() { p.converted++ }

// Other counts an object that no family owns, or returns the diagnostic about it: where the user named its file, and where it was probably
// meant as a policy.
func (p *PassedBy) Other(families *compile.Registry, o source.Object) diag.List {
	apiVersion, _ := o.Value["apiVersion"].(string)
	d := Foreign(families, o, apiVersion, o.Kind())
	if d.Code == diag.NotAPolicy && (o.Among || p.Named) {
		p.objects++
		return nil
	}
	return diag.List{d}
}

// String returns the sentence; empty if nothing was passed over.
func (p PassedBy) String() string {
	var parts []string
	if p.objects > 0 {
		parts = append(parts, terminal.Counted(p.objects, "object that is no policy", "objects that are no policies"))
	}
	if p.converted > 0 {
		parts = append(parts, terminal.Counted(p.converted, "policy in CEL", "policies in CEL"))
	}
	if p.templates > 0 {
		parts = append(parts, terminal.Counted(p.templates, "template of Helm", "templates of Helm"))
	}
	if p.documents > 0 {
		parts = append(parts, terminal.Counted(p.documents, "document that is no object", "documents that are no objects"))
	}
	switch {
	case len(parts) == 0:
		return ""
	case p.objects+p.converted+p.templates+p.documents == 1:
		return parts[0] + " is passed over"
	case len(parts) == 1:
		return parts[0] + " are passed over"
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last] + " are passed over"
}
