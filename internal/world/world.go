package world

import (
	"errors"
	"net/netip"
	"time"
)

// ErrUnavailable is wrapped by the error for a nil member of a World: this kind of evaluation does not offer the requested data (for
// example a ConfigMap in an `apply` without a cluster).
var ErrUnavailable = errors.New("not available here")

// World holds the outside data that one Program may read. The zero World offers nothing.
type World struct {
	Objects    Objects
	Lists      Lists
	Kinds      Kinds
	Namespaces Namespaces
	API        API
	Resources  API // the Kubernetes API for CEL policies; for a missing object, the error is one for which IsNotFound is true
	Services   Services
	HTTP       HTTP
	Globals    Globals
	Images     Images
	Signatures Signatures
	Seals      Seals
	Access     Access
	Names      Lookup[Host, []netip.Addr]
	Clock      Clock
	Rand       Rand

	// GlobalOfSecrets reports whether a GlobalContextEntry holds Secrets; nil for none. A name with a projection stands for its entry.
	GlobalOfSecrets func(name string) bool
}

// each passes all Lookups through the door. The names of members and methods are those of recorded decisions.
func (w *World) each(d door) {
	pass(d, "Objects", "object", "", &w.Objects)
	pass(d, "Lists", "list", "LIST ", &w.Lists)
	pass(d, "KindFinder", "find", "KINDS ", &w.Kinds.Find)
	pass(d, "Kinds", "namespaced", "SCOPE ", &w.Kinds.Namespaced)
	pass(d, "ResourceFinder", "plural", "RESOURCE ", &w.Kinds.Resource)
	pass(d, "ResourceKinds", "served", "RESOURCES ", &w.Kinds.Served)
	pass(d, "Namespaces", "labels", "LABELS ", &w.Namespaces.Labels)
	pass(d, "NamespaceObjects", "namespace", "NAMESPACE ", &w.Namespaces.Object)
	pass(d, "API", "api", "API ", &w.API)
	pass(d, "Resources", "resource", "API ", &w.Resources)
	pass(d, "Services", "service", "SERVICE ", &w.Services)
	pass(d, "HTTP", "http", "SERVICE ", &w.HTTP)
	pass(d, "Globals", "global", "GLOBAL ", &w.Globals)
	pass(d, "Images", "image", "IMAGE ", &w.Images.Image)
	pass(d, "Digests", "digest", "DIGEST ", &w.Images.Digest)
	pass(d, "Names", "host", "HOST ", &w.Names)
	w.Signatures = passSignatures(d, w.Signatures)
	w.Seals = passSeals(d, w.Seals)
	w.Access = passAccess(d, w.Access)
}

// Host is the name of a host whose addresses are looked up.
type Host string

// Within implements Request.
func (h Host) Within(Reach) (Request, error) { return h, nil }

// Title implements Request.
func (h Host) Title() string { return string(h) }

// Key implements Request.
func (h Host) Key() Key { return keyOf(string(h)) }

// Clock returns the time.
type Clock interface{ Now() time.Time }

// Rand returns random numbers for text generation; Intn returns a number in [0, n).
type Rand interface{ Intn(n int) int }

// Root creates Worlds. Its only method limits a World to a Reach.
type Root interface{ For(Reach) World }

// RootFunc adapts a function to Root.
type RootFunc func(Reach) World

// For calls f.
func (f RootFunc) For(r Reach) World { return f(r) }

// Through returns the Root whose Worlds go through the decorator.
func Through(next Root, around Around) Root {
	return RootFunc(func(r Reach) World { return next.For(r).Through(around, nil) })
}

// Reach is the part of the world that a Program may read: the whole cluster or one namespace. The zero Reach includes nothing.
type Reach struct {
	cluster   bool
	namespace string
}

// Cluster returns the Reach of a cluster-scoped policy.
func Cluster() Reach { return Reach{cluster: true} }

// InNamespace returns the Reach of a namespaced policy. With an empty namespace it includes nothing.
func InNamespace(ns string) Reach { return Reach{namespace: ns} }

// Allows reports whether an object in namespace ns (empty for cluster-scoped objects) is within reach.
func (r Reach) Allows(ns string) bool {
	return r.cluster || (r.namespace != "" && r.namespace == ns)
}

// IsCluster reports whether the Reach is the whole cluster.
func (r Reach) IsCluster() bool { return r.cluster }

// Namespace returns the only namespace within reach; empty for the cluster and for the zero Reach.
func (r Reach) Namespace() string { return r.namespace }
