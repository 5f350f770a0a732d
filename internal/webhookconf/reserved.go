package webhookconf

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/names"
)

// Reserved are resources that wildcards in kind selectors do not include: a policy that matches them must name their kind.
type Reserved struct {
	Group string
	// Resource is one resource, or `*` for all resources of the group.
	Resource string
	// Subresource is empty for the resource with all its subresources; otherwise only this subresource is reserved.
	Subresource string
	Why         Reason
}

// Reason is the reason why a resource is reserved.
type Reason string

// The reasons.
const (
	// Churn: the resource changes so often that a call for each request would slow down the whole cluster.
	Churn Reason = "churn"
	// Bootstrap: nodes and Ephor itself need the resource to recover, so a webhook that fails closed would lock the cluster.
	Bootstrap Reason = "bootstrap"
)

// ReservedResources is the table that docs/operating/webhooks.md shows. It includes the API groups of policies, since it must be possible to
// change policies while no replica answers.
var ReservedResources = withGroups(compile.Kinds, []Reserved{
	{"", "events", "", Churn},
	{"events.k8s.io", "events", "", Churn},
	{"", "endpoints", "", Churn},
	{"discovery.k8s.io", "endpointslices", "", Churn},
	{"authentication.k8s.io", "*", "", Churn}, // TokenReview, SelfSubjectReview
	{"authorization.k8s.io", "*", "", Churn},  // SubjectAccessReview and similar kinds
	{"reports.kyverno.io", "*", "", Churn},
	{"wgpolicyk8s.io", "*", "", Churn},
	{"openreports.io", "*", "", Churn},

	{"", "nodes", "", Bootstrap},
	{"", "bindings", "", Bootstrap},
	{"", "pods", "binding", Bootstrap},
	{"", "serviceaccounts", "token", Bootstrap},
	{"coordination.k8s.io", "leases", "", Bootstrap},
	{"certificates.k8s.io", "certificatesigningrequests", "", Bootstrap},
	{"storage.k8s.io", "csinodes", "", Bootstrap},
	{"storage.k8s.io", "volumeattachments", "", Bootstrap},
	{"apiregistration.k8s.io", "apiservices", "", Bootstrap},
})

// withGroups adds the API groups of the policies that Ephor evaluates to the table.
func withGroups(kinds family.Kinds, table []Reserved) []Reserved {
	for _, k := range kinds {
		if r := (Reserved{k.Group, "*", "", Bootstrap}); !k.Foreign && !slices.Contains(table, r) {
			table = append(table, r)
		}
	}
	return table
}

// ReservedCondition is the name of the match condition that excludes reserved resources from webhooks with wildcards.
const ReservedCondition = names.Domain + "not-by-wildcard"

// ownObjects are cluster-wide objects of the installation, by name: its roles and CustomResourceDefinitions. Users must be able to change
// and remove them while no replica answers.
var ownObjects = struct{ roles, groups []string }{
	roles: []string{
		"kyverno:admission-controller", "kyverno:admission-controller:additional", "kyverno:admission-controller:core",
		"kyverno:admission-controller:view",
		"kyverno:background-controller", "kyverno:background-controller:additional", "kyverno:background-controller:core",
		"kyverno:background-controller:view",
		"kyverno:cleanup-controller", "kyverno:cleanup-controller:additional", "kyverno:cleanup-controller:core",
		"kyverno:reports-controller", "kyverno:reports-controller:additional", "kyverno:reports-controller:core",
		"kyverno:reports-controller:view", "kyverno:webhook",
	},
	groups: []string{".kyverno.io", ".openreports.io", ".wgpolicyk8s.io"},
}

// covers reports whether the entry covers the resource.
func (r *Reserved) covers(p coverage.Resource) bool {
	return p.Group == r.Group && (r.Resource == "*" || p.Name == r.Resource) && (r.Subresource == "" || p.Subresource == r.Subresource)
}

// reservedFor returns the entry for a resource, or nil if it is not reserved.
func reservedFor(p coverage.Resource) *Reserved {
	for i := range ReservedResources {
		if ReservedResources[i].covers(p) {
			return &ReservedResources[i]
		}
	}
	return nil
}

// namedResources holds the resources that policies name, and the subresources that they name for all kinds.
type namedResources struct {
	resources    map[coverage.Resource]bool // only group, resource and sub are set
	subresources map[string]bool
}

func (n *namedResources) add(p coverage.Resource) {
	if n.resources == nil {
		n.resources = map[coverage.Resource]bool{}
	}
	put := func(group, sub string) {
		for _, g := range coverage.GroupsOf(group, p.Name) {
			n.resources[coverage.Resource{Group: g, Name: p.Name, Subresource: sub}] = true
		}
	}
	if p.Group != "*" && p.Subresource != "*" {
		put(p.Group, p.Subresource)
		return
	}
	for _, r := range ReservedResources { // only these groups matter, and for single subresources that are reserved only those
		group, subs := p.Group, []string{p.Subresource}
		if group == "*" {
			group = r.Group
		}
		if p.Subresource == "*" {
			subs = []string{"*", r.Subresource}
		}
		for _, sub := range subs {
			put(group, sub)
		}
	}
}

func (n *namedResources) addSubresource(sub string) {
	if n.subresources == nil {
		n.subresources = map[string]bool{}
	}
	n.subresources[sub] = true
}

// condition returns an expression that is true for the requests for which a webhook with wildcards is called: requests for resources
// that are not reserved, or that a policy of the webhook names.
func (n *namedResources) condition() string {
	const field = "request.resource."
	whole := map[string][]string{} // by group: resources that are excluded with all subresources
	var groups, parts []string
	for i := range ReservedResources {
		r := &ReservedResources[i]
		if r.Subresource != "" && n.subresources[r.Subresource] {
			continue
		}
		var resources, subs []string
		for p := range n.resources {
			if r.covers(p) {
				resources = append(resources, p.Name)
				subs = append(subs, p.Subresource)
			}
		}
		slices.Sort(resources)
		resources = slices.Compact(resources)
		slices.Sort(subs)
		group := field + "group == " + quote(r.Group)
		switch {
		case r.Resource == "*":
			if len(resources) > 0 {
				group += " && !(" + isIn(field+"resource", resources) + ")"
			}
			parts = append(parts, group)
		case r.Subresource != "":
			if len(resources) == 0 {
				parts = append(parts, group+" && "+field+"resource == "+quote(r.Resource)+
					" && has(request.subResource) && request.subResource == "+quote(r.Subresource))
			}
		case slices.Contains(subs, "*"): // nothing of it is excluded
		case len(resources) > 0:
			parts = append(parts, group+" && "+field+"resource == "+quote(r.Resource)+
				` && !((has(request.subResource) ? request.subResource : "") in `+listOf(slices.Compact(subs))+")")
		default:
			if whole[r.Group] == nil {
				groups = append(groups, r.Group)
			}
			whole[r.Group] = append(whole[r.Group], r.Resource)
		}
	}
	for _, g := range groups {
		parts = append(parts, field+"group == "+quote(g)+" && "+isIn(field+"resource", whole[g]))
	}
	parts = append(parts, n.ownObjects()...)
	return "!(" + strings.Join(parts, " || ") + ")"
}

// holdsOwn reports whether the objects of the installation include some of the resource.
func holdsOwn(p coverage.Resource) bool {
	return p.Group == "rbac.authorization.k8s.io" && (p.Name == "clusterroles" || p.Name == "clusterrolebindings") ||
		p.Group == "apiextensions.k8s.io" && p.Name == "customresourcedefinitions"
}

// ownObjects returns the expressions for the objects of the installation, except for kinds that a policy names.
func (n *namedResources) ownObjects() (out []string) {
	const name = "has(request.name) && "
	var roles []string
	for _, resource := range []string{"clusterrolebindings", "clusterroles"} {
		if !n.resources[coverage.Resource{Group: "rbac.authorization.k8s.io", Name: resource}] {
			roles = append(roles, resource)
		}
	}
	if len(roles) > 0 {
		out = append(out, `request.resource.group == "rbac.authorization.k8s.io" && `+isIn("request.resource.resource", roles)+
			" && "+name+isIn("request.name", ownObjects.roles))
	}
	if !n.resources[coverage.Resource{Group: "apiextensions.k8s.io", Name: "customresourcedefinitions"}] {
		ends := make([]string, len(ownObjects.groups))
		for i, g := range ownObjects.groups {
			ends[i] = "request.name.endsWith(" + quote(g) + ")"
		}
		out = append(out, `request.resource.group == "apiextensions.k8s.io" && request.resource.resource == "customresourcedefinitions" && `+
			name+"("+strings.Join(ends, " || ")+")")
	}
	return out
}
