package scan

import "context"

// Share says what is for this process to evaluate, where several share the work (package ring): keys are namespaces,
// and for what lies outside of them the kinds.
type Share interface {
	// Holds reports whether work for the key may begin now.
	Holds(key string) bool
	// Hold begins work for the key; release ends it. ok is false when it may not begin; ctx is done when it has to end.
	Hold(parent context.Context, key string) (ctx context.Context, release func(), ok bool)
	// Changed is closed when the keys that are held may be others than when it was called.
	Changed() <-chan struct{}
}

// key is the key of the kind's objects in the namespace.
func (r Resource) key(namespace string) string {
	if namespace != "" {
		return namespace
	}
	return "/" + r.GroupResource().String() // no namespace is called that
}

// holds reports whether the kind's objects in the namespace are for this process to evaluate.
func (l *loop) holds(namespace string) bool {
	return l.s.o.Share == nil || l.s.o.Share.Holds(l.set.Load().resource.key(namespace))
}

// hold begins work for the kind's objects in the namespace.
func (l *loop) hold(ctx context.Context, namespace string) (context.Context, func(), bool) {
	if l.s.o.Share == nil {
		return ctx, func() {}, true
	}
	return l.s.o.Share.Hold(ctx, l.set.Load().resource.key(namespace))
}
