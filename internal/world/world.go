package world

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// ErrUnavailable is wrapped by the error for a World member that is nil: what a rule asked for does not exist in this
// kind of evaluation (for example a ConfigMap in an `apply` without a cluster).
var ErrUnavailable = errors.New("not available here")

// World is what one Program may see of the outside. The zero World offers nothing.
type World struct {
	Objects    Objects
	Lists      Lists
	Namespaces Namespaces
	API        API
	Services   Services
	HTTP       HTTP
	Resources  API // what CEL policies see of the Kubernetes API; a missing object is an error for which IsNotFound holds
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
	// Get returns the object, or an error; a missing object is an error for which IsNotFound holds.
	Get(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error)
}

// Namespaces gives the labels of namespaces.
type Namespaces interface {
	// Labels returns the labels of the namespace; a namespace that cannot be read is an error, never an empty set.
	Labels(ctx context.Context, namespace string) (map[string]string, error)
}

// NamespaceObjects is what Namespaces may be too: it reads whole Namespaces. The command line gives nil for one that it does not know.
type NamespaceObjects interface {
	// Namespace returns the Namespace as a JSON value; one that cannot be read is an error.
	Namespace(ctx context.Context, namespace string) (map[string]any, error)
}

// Names resolves host names.
type Names interface {
	LookupHost(ctx context.Context, host string) ([]netip.Addr, error)
}

// Clock tells the time.
type Clock interface{ Now() time.Time }

// Rand yields random numbers for text generation; Intn returns a number in [0, n).
type Rand interface{ Intn(n int) int }

// Root makes Worlds. Its only method cuts what is visible to a Reach.
type Root interface{ For(Reach) World }

// RootFunc adapts a function to Root.
type RootFunc func(Reach) World

// For calls f.
func (f RootFunc) For(r Reach) World { return f(r) }

// Reach is how far a Program may see: the whole cluster or one namespace. The zero Reach reaches nothing.
type Reach struct {
	cluster   bool
	namespace string
}

// Cluster returns the Reach of a cluster-scoped policy.
func Cluster() Reach { return Reach{cluster: true} }

// InNamespace returns the Reach of a namespaced policy. An empty namespace reaches nothing.
func InNamespace(ns string) Reach { return Reach{namespace: ns} }

// Allows reports whether an object in namespace ns (empty for cluster-scoped objects) is within reach.
func (r Reach) Allows(ns string) bool {
	return r.cluster || (r.namespace != "" && r.namespace == ns)
}

// IsCluster reports whether the Reach is the whole cluster.
func (r Reach) IsCluster() bool { return r.cluster }

// Namespace returns the only namespace within reach; empty for the cluster and for the zero Reach.
func (r Reach) Namespace() string { return r.namespace }
