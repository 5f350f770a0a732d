package world

import (
	"context"
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
	Namespaces Namespaces
	API        API
	Services   Services
	HTTP       HTTP
	Resources  API // the Kubernetes API for CEL policies; for a missing object, the error is one for which IsNotFound is true
	Globals    Globals
	Images     Images
	Signatures Signatures
	Seals      Seals
	Access     Access
	Kinds      Kinds
	Names      Names
	Clock      Clock
	Rand       Rand
}

// Objects reads single Kubernetes objects as JSON values.
type Objects interface {
	// Get returns the object, or an error; for a missing object, IsNotFound is true for the error.
	Get(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error)
}

// Namespaces returns the labels of namespaces.
type Namespaces interface {
	// Labels returns the labels of the namespace; a namespace that cannot be read is an error, never an empty set.
	Labels(ctx context.Context, namespace string) (map[string]string, error)
}

// NamespaceObjects is an optional interface of Namespaces: it reads whole Namespaces. The command line returns nil for an unknown one.
type NamespaceObjects interface {
	// Namespace returns the Namespace as a JSON value; one that cannot be read is an error.
	Namespace(ctx context.Context, namespace string) (map[string]any, error)
}

// Names resolves host names.
type Names interface {
	LookupHost(ctx context.Context, host string) ([]netip.Addr, error)
}

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
