package policy

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/wildcard"
)

// Target selects requests by their resource. A rule has one Target for each part of its match block.
//
// A target has one of two forms. A target by resource is like the API server's webhook rules: group, version and resource are names
// or `*`, and Subresource distinguishes `pods` (empty), `pods/exec`, `pods/*` and `*/scale`; `*/*` selects everything. A target by
// kind is like Kyverno's match blocks: Kind is set, Resource is empty, and each part may contain wildcards. Package discovery maps
// kinds to resources and back.
type Target struct {
	Group, Version string
	// Kind is the kind of the main resource in a target by kind; otherwise it is empty.
	Kind string
	// Resource is the plural name of the main resource in a target by resource; otherwise it is empty.
	Resource string
	// Subresource is empty if the target selects only the main resource.
	Subresource string
	// Scope limits the target to namespaced or cluster-scoped objects.
	Scope ResourceScope
	// Operations are the selected operations; empty for the default of the stage.
	Operations []Operation
	// Names are the names of the selected objects; nil for all. They may contain wildcards in a target by kind, and are
	// exact in a target by resource.
	Names []string
	// GenerateNames: an object without a name matches if its generateName begins with one of Names. This applies to targets by resource;
	// a target by kind compares the generateName itself.
	GenerateNames bool
	// Namespaces are namespaces of the object, possibly with wildcards; nil for all. A Namespace matches by its own name.
	Namespaces []string
	// MatchLabels are labels of the object, possibly with wildcards in a target by kind; nil for any. As in the API server, a target by
	// resource also matches by the labels of the old object.
	MatchLabels map[string]string
	// Unlisted: the author did not list the resource. The policy is asked about it because it changes the containers of Pods, which the
	// author listed.
	Unlisted bool
	// ExactVersion: the API server must not convert requests for other versions (matchPolicy: Exact). It is for webhook rules.
	ExactVersion bool
}

// ResourceScope is the scope of a resource's objects.
type ResourceScope string

// The scopes, with the values of the API. An empty scope means the same as AnyScope.
const (
	AnyScope        ResourceScope = "*"
	NamespacedScope ResourceScope = "Namespaced"
	ClusterScope    ResourceScope = "Cluster"
)

// KindTarget returns the target for a kind as it is written in an object. Either text may contain wildcards. The apiVersion `*` means
// every group and version.
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

// ByResource reports whether this is a target by resource.
func (t *Target) ByResource() bool { return t.Resource != "" }

// Wild reports whether the target names no single kind or resource, so that it may include kinds that are defined later.
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

// MayName reports whether the target may select objects of the kind. A target by resource names no kind: only its group counts.
func (t *Target) MayName(kind schema.GroupKind) bool {
	if t.ByResource() {
		return t.Group == "*" || t.Group == kind.Group
	}
	return wildcard.Match(t.Group, kind.Group) && wildcard.Match(t.Kind, kind.Kind)
}

// Deletes reports whether the target names the operation DELETE.
func (t Target) Deletes() bool { return slices.Contains(t.Operations, Delete) }

// WithoutSubresource returns the target for the main resources.
func (t Target) WithoutSubresource() Target {
	t.Subresource = ""
	return t
}

// OnlyNames returns the names of the target's objects if they are all literal, or nil if it may select other objects.
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

// Matches reports whether the target selects the request. An error means that this is unknown, because the object cannot be read or the
// request does not name its resource. To match many requests, compile the target once.
func (t *Target) Matches(r *Request) (bool, error) {
	s := t.Compile()
	return s.Matches(r)
}
