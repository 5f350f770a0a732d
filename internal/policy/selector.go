package policy

import (
	"fmt"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/wildcard"
)

// Selector is a compiled Target. It is immutable and safe for concurrent use.
type Selector struct {
	group, version, sub wildcard.Pattern
	// name is the name of the kind or the resource.
	name       wildcard.Pattern
	byResource bool
	// pod: the target is `Pod`. It also covers the subresources that change a Pod's containers: ephemeralcontainers, and resize, whose
	// object is the Pod.
	pod        bool
	scope      ResourceScope
	operations []Operation
	Restriction
}

// Compile compiles the target for repeated use.
func (t *Target) Compile() Selector {
	s := Selector{byResource: t.ByResource(), scope: t.Scope, operations: t.Operations, Restriction: t.restriction()}
	if s.byResource {
		s.group, s.version, s.name, s.sub = nameOrAny(t.Group), nameOrAny(t.Version), nameOrAny(t.Resource), nameOrAny(t.Subresource)
		return s
	}
	s.group, s.version = wildcard.Compile(t.Group), wildcard.Compile(t.Version)
	s.name, s.sub = wildcard.Compile(t.Kind), wildcard.Compile(t.Subresource)
	s.pod = t.Kind == "Pod" && t.Subresource == ""
	return s
}

// nameOrAny returns a pattern for one text, or for all texts if it is `*`.
func nameOrAny(text string) wildcard.Pattern {
	if text == "*" {
		return wildcard.Compile(text)
	}
	return wildcard.Literal(text)
}

// Covers reports whether the target selects the group, version, kind or resource, subresource, scope and operation of the request. It
// returns false if the request does not name its resource; see MayCover.
func (s *Selector) Covers(r *Request) bool {
	return s.covers(r, false)
}

// MayCover does the same as Covers, but returns true if the request does not name its resource and the rest matches.
func (s *Selector) MayCover(r *Request) bool {
	return s.covers(r, true)
}

func (s *Selector) covers(r *Request, unknown bool) bool {
	if len(s.operations) > 0 && !slices.Contains(s.operations, r.EffectiveOperation()) || !s.inScope(r) {
		return false
	}
	switch {
	case !s.byResource:
		return s.CoversKind(r)
	case r.GVR.Resource != "":
		return s.CoversResource(r)
	}
	// The groups and versions of a kind are those of its resources.
	return (unknown || s.name.String() == "*") && s.group.Match(r.GVK.Group) && s.version.Match(r.GVK.Version) && s.sub.Match(r.Subresource)
}

// CoversKind does the same as Covers for a target by kind, without scope and operations.
func (s *Selector) CoversKind(r *Request) bool {
	if !s.name.Match(r.GVK.Kind) || !s.group.Match(r.GVK.Group) || !s.version.Match(r.GVK.Version) {
		return false
	}
	if s.sub.Match(r.Subresource) {
		return true
	}
	return s.pod && (r.Subresource == "ephemeralcontainers" || r.Subresource == "resize") && r.GVK.Group == ""
}

// CoversResource does the same as Covers for a target by resource, without scope and operations. As in the API server,
// `pods/*` also covers pods.
func (s *Selector) CoversResource(r *Request) bool {
	return s.name.Match(r.GVR.Resource) && s.group.Match(r.GVR.Group) && s.version.Match(r.GVR.Version) &&
		s.sub.Match(r.Subresource)
}

// inScope reports whether the object has the scope of the target. A Namespace counts as cluster-scoped.
func (s *Selector) inScope(r *Request) bool {
	switch s.scope {
	case NamespacedScope:
		return r.ObjectNamespace() != ""
	case ClusterScope:
		return r.ObjectNamespace() == ""
	}
	return true
}

// Matches does the same as Target.Matches.
func (s *Selector) Matches(r *Request) (bool, error) {
	if !s.MayCover(r) {
		return false, nil
	}
	if ok, err := s.fulfilled(r); !ok || err != nil {
		return false, err
	}
	if !s.Covers(r) {
		return false, fmt.Errorf("the resource of %s is not known", r.GVK.Kind)
	}
	return true, nil
}

// fulfilled reports whether the request matches the restriction.
func (s *Selector) fulfilled(r *Request) (bool, error) {
	if s.IsEmpty() {
		return true, nil
	}
	if s.Names == nil && len(s.Labels) == 0 && !r.IsNamespace() {
		return matchAny(s.Namespaces, r.Namespace), nil // the object need not be read
	}
	f, err := FactsOf(r, len(s.Labels) > 0)
	if err != nil {
		return false, err
	}
	ok, err := s.MatchesFacts(&f)
	if !ok && err == nil && s.OldLabels && len(s.Labels) > 0 && r.OldObject != nil {
		if f.Labels, err = r.OldLabels(); err == nil {
			ok, err = s.MatchesFacts(&f)
		}
	}
	return ok, err
}

// Restriction holds the conditions of a Target besides kinds, resources, scope and operations.
type Restriction struct {
	Names, Namespaces []wildcard.Pattern // nil for all
	// Exact: an object without a name matches no name. Prefix: such an object matches a name that begins with the value of its generateName.
	Exact, Prefix bool
	Labels        wildcard.Pairs
	// OldLabels: the labels of the old object may match Labels, too.
	OldLabels bool
}

func (t *Target) restriction() (r Restriction) {
	r.Exact, r.Prefix, r.OldLabels = t.ByResource(), t.GenerateNames, t.ByResource()
	compile := wildcard.Compile
	if r.Exact {
		compile = wildcard.Literal
	}
	r.Names = patterns(t.Names, compile)
	r.Namespaces = patterns(t.Namespaces, wildcard.Compile)
	if len(t.MatchLabels) > 0 {
		r.Labels = wildcard.CompilePairs(t.MatchLabels)
	}
	return r
}

// patterns compiles texts. It returns nil if there are none, or if one of them matches everything.
func patterns(texts []string, compile func(string) wildcard.Pattern) []wildcard.Pattern {
	if texts == nil {
		return nil
	}
	out := make([]wildcard.Pattern, len(texts))
	for i, t := range texts {
		if out[i] = compile(t); t == "*" && out[i].Match("") {
			return nil
		}
	}
	return out
}

// IsEmpty reports whether there are no conditions.
func (r *Restriction) IsEmpty() bool {
	return r.Names == nil && r.Namespaces == nil && len(r.Labels) == 0
}

// Facts are the values of a request that are compared with a Restriction.
type Facts struct {
	// Name is the object's name. If it has none yet, Name is its generateName and Unnamed is set.
	Name    string
	Unnamed bool
	// Namespace is the object's namespace, or the name of a Namespace.
	Namespace string
	// Labels are the object's labels. OddLabels: the labels are omitted because one is not a string.
	Labels    wildcard.Values
	OddLabels bool
}

// FactsOf returns the facts of a request. It includes labels only if labels is set. An error means that the object cannot be read.
func FactsOf(r *Request, labels bool) (f Facts, err error) {
	if f.Name, f.Unnamed, err = r.nameOf(); err != nil {
		return f, err
	}
	if f.Namespace = r.Namespace; r.IsNamespace() {
		f.Namespace = f.Name
	}
	if labels {
		f.Labels, err = r.Labels()
		f.OddLabels = f.Labels == nil && r.oddLabels()
	}
	return f, err
}

// MatchesFacts reports whether the facts match the restriction. An error means that the comparison takes too long.
func (r *Restriction) MatchesFacts(f *Facts) (bool, error) {
	if r.Names != nil && !r.hasName(f) || r.Namespaces != nil && !matchAny(r.Namespaces, f.Namespace) {
		return false, nil
	}
	work := 0
	return r.Labels.In(f.Labels, &work)
}

func (r *Restriction) hasName(f *Facts) bool {
	if f.Unnamed && r.Exact {
		return r.Prefix && f.Name != "" && slices.ContainsFunc(r.Names, func(p wildcard.Pattern) bool { return strings.HasPrefix(f.Name, p.String()) })
	}
	return matchAny(r.Names, f.Name)
}

func matchAny(patterns []wildcard.Pattern, s string) bool {
	for i := range patterns {
		if patterns[i].Match(s) {
			return true
		}
	}
	return false
}
