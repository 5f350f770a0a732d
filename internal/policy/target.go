package policy

import (
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/wildcard"
)

// Target selects requests by what they are for. A rule has one for each part of its match block.
//
// A target is written in one of two forms. By resource, as the API server's webhook rules are: group, version and resource
// are names or `*`, and Subresource distinguishes `pods` (empty), `pods/exec`, `pods/*` and `*/scale` apart; `*/*` is everything. By kind, as the match blocks of Kyverno are: Kind is set, Resource is empty, and each part may hold wildcards. Which
// resources a kind has, and which kinds a resource has, is known to package discovery.
type Target struct {
	Group, Version string
	// Kind is the kind of the main resource, where the target is written by kind; else empty.
	Kind string
	// Resource is the plural name of the main resource, where the target is written by resource; else empty.
	Resource string
	// Subresource is empty for the main resource only.
	Subresource string
	// Scope restricts the target to objects inside or outside of namespaces.
	Scope ResourceScope
	// Operations are the selected operations; empty for the default of the stage.
	Operations []Operation
	// Names are the names of the selected objects: wildcards in a target by kind, the names themselves in one by resource;
	// nil for all.
	Names []string
	// GenerateNames: an object that is still without a name is selected when its generateName begins with one of Names. It is
	// for targets by resource; one by kind compares the generateName itself.
	GenerateNames bool
	// Namespaces are wildcards for the object's namespace; a Namespace is compared by its own name. nil for all.
	Namespaces []string
	// MatchLabels are labels of the object, perhaps with wildcards in a target by kind; nil for any. A target by resource
	// is fulfilled by the labels of the old object, too, as for the API server.
	MatchLabels map[string]string
	// ExactVersion: the API server must not convert requests for other versions (matchPolicy: Exact). It is for webhook rules.
	ExactVersion bool
}

// ResourceScope is where the objects of a resource are.
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

// ByResource reports whether the target is written by resource.
func (t *Target) ByResource() bool { return t.Resource != "" }

// Wild reports whether the target names no single kind or resource, so that it may come to mean ones that are defined later.
func (t *Target) Wild() bool {
	if t.ByResource() {
		return t.Resource == "*"
	}
	return wildcard.Has(t.Kind)
}

// Everything reports whether the target is for all groups, versions and kinds.
func (t *Target) Everything() bool {
	return t.Group == "*" && t.Version == "*" && (t.Kind == "*" || t.Resource == "*")
}

// Main reports whether the target is for main resources.
func (t *Target) Main() bool {
	return t.Subresource == "" || t.ByResource() && t.Subresource == "*"
}

// WithoutSubresource returns the target for the main resources.
func (t Target) WithoutSubresource() Target {
	t.Subresource = ""
	return t
}

// OnlyNames returns the names that the objects of the target have, where each is written out; nil when there may be others.
func (t *Target) OnlyNames() []string {
	if t.GenerateNames || !t.ByResource() && slices.ContainsFunc(t.Names, wildcard.Has) {
		return nil
	}
	return t.Names
}

// String returns the target as people write it: group/version/Kind/subresource, or group/version, Resource=resource/subresource.
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

// Matches reports whether the target selects the request. An error means that it is not known: the object cannot be read, or
// the request does not say its resource. To ask for many requests, compile the target once.
func (t *Target) Matches(r *Request) (bool, error) {
	s := t.Compile()
	return s.Matches(r)
}
