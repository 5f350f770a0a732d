package policykind

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Family names a family of policies. Each has a compiler in internal/compile.
type Family string

// The families.
const (
	Classic Family = "classic"
	Cleanup Family = "cleanup"
	Native  Family = "native"
)

// Kind describes one kind of policy. Its values are shared and must not be changed.
type Kind struct {
	Family Family
	Group  string
	Kind   string
	// Resource is the name of the kind in URLs.
	Resource string
	// Versions are the served versions; the first is the one that is stored, read and written.
	Versions   []string
	Namespaced bool

	// LabelPrefix begins the labels with which intermediate reports name policies of the kind; empty for no label.
	LabelPrefix string
	// Source is what reports name as the source of results.
	Source string
	// Work are the types of the UpdateRequests (spec.requestType) that ask for work of policies of the kind.
	Work []string
	// Excepted reports whether a PolicyException of kyverno.io may name policies of the kind.
	Excepted bool
	// Superseded reports whether Kyverno has given the kind a successor, which kyverno_deprecated_resource_total counts.
	Superseded bool
}

// GVK is the kind in its first version.
func (k *Kind) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Versions[0], Kind: k.Kind}
}

// GVR is the resource in its first version.
func (k *Kind) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Versions[0], Resource: k.Resource}
}

// All returns the kinds of all families, in the order of the table.
func All() iter.Seq[*Kind] {
	return func(yield func(*Kind) bool) {
		for i := range table {
			if !yield(&table[i]) {
				return
			}
		}
	}
}

// InFamily returns the kinds of one family.
func InFamily(f Family) iter.Seq[*Kind] {
	return func(yield func(*Kind) bool) {
		for k := range All() {
			if k.Family == f && !yield(k) {
				return
			}
		}
	}
}

// Of returns the kind of a group; nil when it is none of a policy.
func Of(group, kind string) *Kind {
	for k := range All() {
		if k.Group == group && k.Kind == kind {
			return k
		}
	}
	return nil
}

// Owner returns the kind of an object by its API version, whether that is served or not; nil when it is none of a policy.
func Owner(apiVersion, kind string) *Kind {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return nil
	}
	return Of(group, kind)
}

// Scoped returns the first kind of a family that lives in namespaces, or that does not.
func Scoped(f Family, namespaced bool) *Kind {
	for k := range InFamily(f) {
		if k.Namespaced == namespaced {
			return k
		}
	}
	return nil
}

// Named returns the kind of that name, for what does not know the group; nil when there is none.
func Named(kind string) *Kind {
	for k := range All() {
		if k.Kind == kind {
			return k
		}
	}
	return nil
}

// ForWork returns the kind whose policies an UpdateRequest of the type names; nil for an unknown type.
func ForWork(requestType string, namespaced bool) *Kind {
	for k := range All() {
		if k.Namespaced == namespaced && slices.Contains(k.Work, requestType) {
			return k
		}
	}
	return nil
}

// Delegates reports whether objects of the kind get work done with the rights of another account. That holds for every policy that
// lives in a namespace: its author is asked for his own rights when it is written. No namespaced policy may write one, for its
// author would then be the background controller, who may do more than the author of the first (S7 in docs/threat-model.md).
func Delegates(kind schema.GroupKind) bool {
	k := Of(kind.Group, kind.Kind)
	return k != nil && k.Namespaced
}
