package load

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/strict"
)

// nearKind returns the kind of policies that a misspelt kind probably means.
func nearKind(families *compile.Registry, group, kind string) string {
	var names []string
	for _, k := range families.Kinds() {
		if k.Group != group {
			continue
		}
		if strings.EqualFold(k.Kind, kind) {
			return k.Kind
		}
		names = append(names, k.Kind)
	}
	return strict.Nearest(kind, names)
}

// rightVersion returns the API version in which policies of the kind are best written; empty for an unknown kind.
func rightVersion(families *compile.Registry, kind string) string {
	k := families.Kinds().Named(kind)
	if k == nil {
		return ""
	}
	version := k.Versions[0]
	if slices.Contains(k.Versions, "v1") {
		version = "v1"
	}
	return k.Group + "/" + version
}

// meantGroup reports whether the author of an object of a kind of policies probably meant the group of that kind: its group is ours, one of
// Kyverno, or similar to the right one. Other products have kinds of the same names.
func meantGroup(families *compile.Registry, group, kind string) bool {
	k := families.Kinds().Named(kind)
	return k != nil && (strings.HasSuffix(group, "ephor.dev") || strings.Contains(group, "kyverno") || strict.Nearest(group, []string{k.Group}) != "")
}

// Foreign returns the diagnostic for an object that no policy family owns. Policies of unsupported kinds and Kubernetes
// objects are mistakes; other objects may be among the policies for other purposes.
func Foreign(families *compile.Registry, o source.Object, apiVersion, kind string) diag.Diagnostic {
	d := diag.Diagnostic{Pos: o.Pos("kind")}
	group, _, named := strings.Cut(apiVersion, "/")
	if !named {
		group = ""
	}
	switch {
	case families.Owns(apiVersion, kind), families.CompanionOf(apiVersion, kind) != nil:
		d.Severity = diag.Warning
		d.Summary = "policies of kind " + kind + " are applied, tested and checked, but not explained"
		d.Code, d.Name = diag.NotSupported, kind
		d.Hint = "it is passed over"
	case compile.OwnsException(apiVersion, kind):
		d.Severity = diag.Warning
		d.Summary = "a " + kind + " is not a policy"
		d.Code, d.Name = diag.NotAPolicy, kind
		d.Hint = "it is passed over"
	case globalentry.Owns(apiVersion, kind):
		d.Severity = diag.Warning
		d.Summary = "a GlobalContextEntry is not a policy"
		d.Code, d.Name = diag.NotAPolicy, kind
		d.Hint = "it is read where it is given with --resource"
	case slices.ContainsFunc(families.Kinds(), func(k *family.Kind) bool { return k.Group == group && !k.Foreign }):
		d.Summary = "policies of kind " + kind + " (" + apiVersion + ") are not supported by this version"
		d.Code, d.Name = diag.NotSupported, kind
		d.Hint = "it is not applied"
		if right := rightVersion(families, kind); right != "" {
			d.Hint = "write apiVersion: " + right
		} else if near := nearKind(families, group, kind); near != "" {
			d.Hint = "did you mean " + near + "?"
		}
	case meantGroup(families, group, kind):
		d.Pos = o.Pos("apiVersion")
		d.Summary = "there is no kind " + kind + " in the group " + group
		d.Code, d.Name = diag.NotSupported, kind
		d.Hint = "write apiVersion: " + rightVersion(families, kind)
	case source.KubernetesGroup(group):
		d.Summary = "policy type not supported: " + apiVersion + " " + kind
		d.Code, d.Name = diag.NotAPolicy, kind
		d.Hint = "resources are given with --resource, in a test under resources"
	default:
		d.Severity = diag.Warning
		d.Summary = apiVersion + " " + kind + " is not a policy"
		d.Code, d.Name = diag.NotAPolicy, kind
		d.Hint = "it is passed over"
	}
	return d
}
