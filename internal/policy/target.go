package policy

import (
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/wildcard"
)

// Target selects requests by their resource. A rule has one for each part of its match block.
//
// A target has one of two forms. By resource, as in the API server's webhook rules: group, version and resource are names or `*`, and
// Subresource distinguishes `pods` (empty), `pods/exec`, `pods/*` and `*/scale`; `*/*` is everything. By kind, as in Kyverno's match
// blocks: Kind is set, Resource is empty, and each part may hold wildcards. Package discovery maps kinds to resources and back.
type Target struct {
	Group, Version string
	// Kind is the kind of the main resource in a target by kind; else empty.
	Kind string
	// Resource is the plural name of the main resource in a target by resource; else empty.
	Resource string
	// Subresource is empty for the main resource only.
	Subresource string
	// Scope limits the target to namespaced or cluster-scoped objects.
	Scope ResourceScope
	// Operations are the selected operations; empty for the default of the stage.
	Operations []Operation
	// Names are the names of the selected objects: wildcards in a target by kind, the names themselves in one by resource;
	// nil for all.
	Names []string
	// GenerateNames: an object without a name matches if its generateName begins with one of Names. It is for targets by resource; one by
	// kind compares the generateName itself.
	GenerateNames bool
	// Namespaces are wildcards for the object's namespace; a Namespace matches by its own name. nil for all.
	Namespaces []string
	// MatchLabels are labels of the object, possibly with wildcards in a target by kind; nil for any. The labels of the old object also
	// match a target by resource, as at the API server.
	MatchLabels map[string]string
	// ExactVersion: the API server must not convert requests for other versions (matchPolicy: Exact). It is for webhook rules.
	ExactVersion bool
}

// ResourceScope is the scope of a resource's objects.
type ResourceScope string

// The scopes, in the words of the API; the empty one is AnyScope too.
const (
	AnyScope        ResourceScope = "*"
	NamespacedScope ResourceScope = "Namespaced"
	ClusterScope    ResourceScope = "Cluster"
)

// KindTarget returns the target of a kind as an object writes it. Either text may hold wildcards; the apiVersion `*` means every group and
// version.
func KindTarget(apiVersion, kind string) Target {
	group, version, named := strings.Cut(apiVersion, "/")
	switch {
	case apiVersion == "*":
		group, version = "*", "*"
	case !named:
		group, version = "", apiVersion
	}
	return Target{Group: group, Version: version, Kind: kind}
}

// ByResource reports whether the target has the form by resource.
func (t *Target) ByResource() bool { return t.Resource != "" }

// Wild reports whether the target names no single kind or resource, so that it may include ones that are defined later.
func (t *Target) Wild() bool {
	if t.ByResource() {
		return t.Resource == "*"
	}
	return wildcard.Has(t.Kind)
}

// Everything reports whether the target covers all groups, versions and kinds.
func (t *Target) Everything() bool {
	return t.Group == "*" && t.Version == "*" && (t.Kind == "*" || t.Resource == "*")
}

// Main reports whether the target selects main resources.
func (t *Target) Main() bool {
	return t.Subresource == "" || t.ByResource() && t.Subresource == "*"
}

// WithoutSubresource returns the target for the main resources.
func (t Target) WithoutSubresource() Target {
	t.Subresource = ""
	return t
}

// OnlyNames returns the names of the target's objects if all are literal; nil if there may be others.
func (t *Target) OnlyNames() []string {
	if t.GenerateNames || !t.ByResource() && slices.ContainsFunc(t.Names, wildcard.Has) {
		return nil
	}
	return t.Names
}

// String returns the target in its usual notation: group/version/Kind/subresource, or group/version, Resource=resource/subresource.
func (t *Target) String() string {
	if t.ByResource() {
		text := t.Resource
		if t.Subresource != "" {
			text += "/" + t.Subresource
		}
		return t.Group + "/" + t.Version + ", Resource=" + text
	}
	text := t.Kind
	switch {
	case t.Group != "*":
		text = t.Group + "/" + t.Version + "/" + t.Kind
	case t.Version != "*":
		text = t.Version + "/" + t.Kind
	}
	if t.Subresource != "" {
		text += "/" + t.Subresource
	}
	return text
}

// Matches reports whether the target selects the request. An error means that this is unknown: the object cannot be read, or the request
// does not name its resource. For many requests, compile the target once.
func (t *Target) Matches(r *Request) (bool, error) {
	s := t.Compile()
	return s.Matches(r)
}
