package scan

import (
	"context"

	"ephor.invalid/ephor/internal/controller"
)

// Share is the part of the work that this process does (package ring). Keys are namespaces, and the kinds for cluster-scoped objects.
type Share interface {
	controller.Share
	// Owns reports whether work on the key may begin now.
	Owns(key string) bool
}

// key returns the key of the kind's objects in the namespace.
func (r Resource) key(namespace string) string {
	if namespace != "" {
		return namespace
	}
	return "/" + r.GroupResource().String() // not a valid name of a namespace
}

// owns reports whether this process evaluates the kind's objects in the namespace.
func (l *loop) owns(namespace string) bool {
	return l.s.o.Share.Owns(l.set.Load().resource.key(namespace))
}

// hold begins work on the kind's objects in the namespace.
func (l *loop) hold(ctx context.Context, namespace string) (context.Context, func(), bool) {
	return l.s.o.Share.Hold(ctx, l.set.Load().resource.key(namespace))
}
