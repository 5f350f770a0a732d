package scan

import "context"

// Share is the part of the work that this process does, if several share it (package ring). Keys are namespaces, and the kinds for
// cluster-scoped objects.
type Share interface {
	// Owns reports whether work on the key may begin now.
	Owns(key string) bool
	// Hold begins work on the key; release ends it. ok is false if it may not begin; ctx is done if it must end early.
	Hold(parent context.Context, key string) (ctx context.Context, release func(), ok bool)
	// Changed returns a channel that is closed when the held keys may have changed.
	Changed() <-chan struct{}
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
	return l.s.o.Share == nil || l.s.o.Share.Owns(l.set.Load().resource.key(namespace))
}

// hold begins work on the kind's objects in the namespace.
func (l *loop) hold(ctx context.Context, namespace string) (context.Context, func(), bool) {
	if l.s.o.Share == nil {
		return ctx, func() {}, true
	}
	return l.s.o.Share.Hold(ctx, l.set.Load().resource.key(namespace))
}
