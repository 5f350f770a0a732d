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
	objects, templates int
	// Named also counts objects in files that the user named, such as the files of a commit.
	Named bool
}

// Templates counts the warnings about templates of Helm, and returns the other diagnostics.
func (p *PassedBy) Templates(diags diag.List) diag.List {
	return slices.DeleteFunc(diags, func(d diag.Diagnostic) bool {
		passed := d.Code == diag.HelmTemplate && d.Severity == diag.Warning
		if passed {
			p.templates++
		}
		return passed
	})
}

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
	if p.templates > 0 {
		parts = append(parts, terminal.Counted(p.templates, "template of Helm", "templates of Helm"))
	}
	switch {
	case len(parts) == 0:
		return ""
	case p.objects+p.templates == 1:
		return parts[0] + " is passed over"
	}
	return strings.Join(parts, " and ") + " are passed over"
}
