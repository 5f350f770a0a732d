package classic

import (
	"slices"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/match"
)

// locatedFilter is a filter of a rule with its field path.
type locatedFilter struct {
	kyvernov1.ResourceFilter
	path string // spec.rules[0].match.any[1]
}

func (f *locatedFilter) resources() string { return f.path + ".resources" }

// filters returns the filters of both blocks.
func filters(r *kyvernov1.Rule, path string) []locatedFilter {
	out := blockFilters(&r.MatchResources, path+".match")
	if r.ExcludeResources != nil {
		out = append(out, blockFilters(r.ExcludeResources, path+".exclude")...)
	}
	return out
}

func blockFilters(m *kyvernov1.MatchResources, path string) []locatedFilter {
	var out []locatedFilter
	for i, f := range m.Any {
		out = append(out, locatedFilter{f, path + ".any[" + strconv.Itoa(i) + "]"})
	}
	for i, f := range m.All {
		out = append(out, locatedFilter{f, path + ".all[" + strconv.Itoa(i) + "]"})
	}
	if hasUser(&m.UserInfo) || !m.ResourceDescription.IsZero() {
		out = append(out, locatedFilter{kyvernov1.ResourceFilter{UserInfo: m.UserInfo, ResourceDescription: m.ResourceDescription}, path})
	}
	return out
}

// These texts are Kyverno's, verbatim.
const (
	textWildcardRule     = "wildcard policy does not support rule type"
	textMetadataOnly     = "policy can only deal with the metadata field of the resource if the rule does not match any kind"
	textKindRequired     = "at least one element must be specified in a kind block, the kind attribute is mandatory when working with the resources element"
	textWildcardScan     = "wildcard policy not allowed in background mode. Set spec.background=false to disable background mode for this policy rule "
	textBackgroundPrefix = "only select variables are allowed in background mode. Set spec.background=false to disable background mode for this policy rule: "
)

// matchAgainstRule checks the restrictions on a rule whose match block names no particular kind.
func (c *checker) matchAgainstRule(r *kyvernov1.Rule, path string) {
	blocks := blockFilters(&r.MatchResources, path+".match")
	if len(blocks) == 0 {
		c.diags.Errorf(path+".match", "match resources not specified")
		c.diags.Hint("say which resources the rule is for: match.any[0].resources.kinds")
		return
	}
	wild, kindless := false, false
	for _, f := range blocks {
		wild = wild || slices.Contains(f.ResourceDescription.Kinds, "*")
		kindless = kindless || len(f.ResourceDescription.Kinds) == 0
		if len(f.ResourceDescription.Kinds) == 0 && !hasUser(&f.UserInfo) && onlyOperations(&f.ResourceDescription) {
			c.diags.Errorf(f.resources()+".kinds", "%s", textKindRequired)
			c.diags.Hint("add kinds, such as kinds: [Pod]")
		}
	}
	v := r.Validation
	if wild && (r.Generation != nil || len(r.VerifyImages) > 0 || v != nil && len(v.ForEachValidation) > 0) {
		c.diags.Errorf(path, "%s", textWildcardRule)
		c.diags.Hint("name the kinds in match")
	}
	if (wild || kindless) && !metadataOnly(r) {
		c.diags.Errorf(path, "%s", textMetadataOnly)
		c.diags.Hint("name the kinds in match, or look at metadata only")
	}
}

func onlyOperations(d *kyvernov1.ResourceDescription) bool {
	return d.Name == "" && len(d.Names) == 0 && len(d.Namespaces) == 0 && len(d.Annotations) == 0 &&
		d.Selector == nil && d.NamespaceSelector == nil
}

// metadataOnly reports whether the patterns and patches of a rule use only metadata.
func metadataOnly(r *kyvernov1.Rule) bool {
	if v := r.Validation; v != nil {
		if v.RawPattern != nil && !onlyMetadataKeys(v.RawPattern.Raw) {
			return false
		}
		if v.RawAnyPattern != nil && !onlyMetadataKeys(v.RawAnyPattern.Raw) {
			return false
		}
		if v.Deny != nil && v.Deny.RawAnyAllConditions != nil && !metadataConditions(v.Deny.RawAnyAllConditions.Raw) {
			return false
		}
	}
	if m := r.Mutation; m != nil && m.RawPatchStrategicMerge != nil && !onlyMetadataKeys(m.RawPatchStrategicMerge.Raw) {
		return false
	}
	return true
}

// backgroundMatch rejects selectors that a scan cannot evaluate: those that use the requester or subresources.
func (c *checker) backgroundMatch(r *kyvernov1.Rule, path string, index int) {
	for _, f := range filters(r, path) {
		at := "spec/rules[" + strconv.Itoa(index) + "]" + strings.ReplaceAll(strings.TrimPrefix(f.path, path), ".", "/")
		for _, field := range userInfoFields(&f.UserInfo) {
			if mutatesExisting(c.spec) {
				break
			}
			c.diags.Errorf(f.path+"."+field, "%sinvalid variable used at path: %s/%s ", textBackgroundPrefix, at, field)
			c.diags.Code(diag.NoRequester)
			c.diags.Hint("a background scan does not know who made a request")
		}
		kinds := f.ResourceDescription.Kinds
		if slices.Contains(kinds, "*") && strings.HasPrefix(f.path, path+".match") {
			c.diags.Errorf(f.resources()+".kinds", "%s", textWildcardScan)
			c.diags.Code(diag.BackgroundKind, "*")
			c.diags.Hint("a background scan cannot list every kind: name the kinds, or set spec.background to false")
			continue
		}
		if r.Validation == nil {
			continue
		}
		for _, k := range kinds {
			// As in Kyverno, only subresource wildcards are rejected; `Pod/exec` is accepted.
			if t, err := match.ParseKind(k); err == nil && subresourceWildcard(t.Kind, t.Subresource) {
				c.diags.Errorf(f.resources()+".kinds", "background scan enabled with subresource %s", k)
				c.diags.Code(diag.BackgroundKind, k)
				c.diags.Hint("set spec.background to false")
			}
		}
	}
}

func subresourceWildcard(kind, subresource string) bool {
	return subresource == "*" || kind == "*" && subresource != ""
}

func hasUser(u *kyvernov1.UserInfo) bool { return len(userInfoFields(u)) > 0 }

func userInfoFields(u *kyvernov1.UserInfo) []string {
	var out []string
	if len(u.Roles) > 0 {
		out = append(out, "roles")
	}
	if len(u.ClusterRoles) > 0 {
		out = append(out, "clusterRoles")
	}
	if len(u.Subjects) > 0 {
		out = append(out, "subjects")
	}
	return out
}

// mutatesExisting reports whether any rule changes existing resources. If so, the restrictions of background mode on user information do
// not apply.
func mutatesExisting(spec *kyvernov1.Spec) bool {
	return slices.ContainsFunc(spec.Rules, func(r kyvernov1.Rule) bool { return r.Mutation != nil && len(r.Mutation.Targets) > 0 })
}
