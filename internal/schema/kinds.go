package schema

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/wildcard"
)

// Kinds are the known kinds. It is safe for concurrent use.
type Kinds struct {
	custom map[schema.GroupVersionKind]Type
	server kubeversion.Minor
}

// New returns the kinds of Kubernetes and those that the CustomResourceDefinitions define.
func New(crds ...map[string]any) *Kinds {
	k := &Kinds{custom: map[schema.GroupVersionKind]Type{}}
	for _, c := range crds {
		addCustom(k.custom, c)
	}
	return k
}

// At returns the kinds and fields that an API server of the version has.
func (k *Kinds) At(server kubeversion.Minor) *Kinds { return &Kinds{custom: k.custom, server: server} }

// Server returns the version of the API server.
func (k *Kinds) Server() kubeversion.Minor { return k.server.Known() }

// Found is a kind with the type of its objects.
type Found struct {
	schema.GroupVersionKind
	Type
}

// Find returns the kinds that a selector with wildcards covers, in order, in all their versions. A subresource is unknown: its
// objects have other kinds.
func (k *Kinds) Find(group, version, kind, subresource string) []Found {
	if subresource != "" {
		return nil
	}
	var out []Found
	add := func(gvk schema.GroupVersionKind, t Type) {
		if wildcard.Match(kind, gvk.Kind) && wildcard.Match(group, gvk.Group) && wildcard.Match(version, gvk.Version) {
			out = append(out, Found{gvk, t})
		}
	}
	server := k.server.Known()
	for gvk, t := range builtin() {
		if s := (structure{t: t, server: server}); s.since("*") <= server {
			add(gvk, s)
		}
	}
	for gvk, t := range k.custom {
		add(gvk, t)
	}
	slices.SortFunc(out, func(a, b Found) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// builtin are the kinds of Kubernetes, without those that only occur in requests (options, lists).
var builtin = sync.OnceValue(func() map[schema.GroupVersionKind]reflect.Type {
	out := map[schema.GroupVersionKind]reflect.Type{}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version == "__internal" || strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") {
			continue
		}
		if _, ok := (structure{t, kubeversion.Newest}).Field("metadata"); ok {
			out[gvk] = t
		}
	}
	return out
})
