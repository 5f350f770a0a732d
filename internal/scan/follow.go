package scan

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"ephor.invalid/ephor/internal/controller"
)

// watch follows changes from the version until ctx is done, or until all objects must be listed again: the version to continue from has
// expired, or the kind cannot be watched.
func (l *loop) watch(ctx context.Context, version string) {
	client := l.s.o.Metadata.Resource(l.set.Load().resource.GroupVersionResource)
	for ctx.Err() == nil {
		var err error
		version, err = controller.Watch(ctx, metav1.ListOptions{ResourceVersion: version}, client.Watch, &l.watches, func(e watch.Event) error {
			l.event(e)
			return nil
		})
		switch {
		case err == nil:
			return
		case apierrors.IsNotFound(err): // the kind is no longer served, which the next list shows
			controller.Sleep(ctx, l.watches.Next())
			return
		case unlistable(err):
			controller.Sleep(ctx, unlistablePoll) // the kind can be listed, and not watched
			return
		}
		controller.Sleep(ctx, l.watches.Next())
	}
}

// event handles an event of the watch.
func (l *loop) event(e watch.Event) {
	m, ok := e.Object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	l.known.Lock()
	defer l.known.Unlock()
	uid := string(m.UID)
	if e.Type == watch.Deleted {
		delete(l.objects, uid)
		delete(l.failing, uid)
		return
	}
	if !l.owns(m.Namespace) {
		return
	}
	switch o := l.objects[uid]; {
	case o == nil:
		l.objects[uid] = &object{namespace: m.Namespace, name: m.Name, sweep: l.sweeps}
	case o.meta == metaHash(m.ResourceVersion, m.Generation, m.Labels, m.Annotations):
		return
	}
	l.s.changed.Add(l.key(m.Namespace, m.Name, uid))
}

// again requests another evaluation of an object, and againIn of those in a namespace, if they are known. They do not block. An object in the share
// of another process is evaluated when this process has it again.
func (l *loop) again(uid string) {
	l.known.Lock()
	defer l.known.Unlock()
	o := l.objects[uid]
	if o == nil {
		return
	}
	o.revision = 0
	o.asked++
	if l.owns(o.namespace) {
		l.s.changed.Add(l.key(o.namespace, o.name, uid))
	}
}

func (l *loop) againIn(namespace string) {
	l.known.Lock()
	var uids []string
	for uid, o := range l.objects {
		if o.namespace == namespace {
			uids = append(uids, uid)
		}
	}
	l.known.Unlock()
	for _, uid := range uids {
		l.again(uid)
	}
}

// key returns the key of an object. Names contain no slash.
func (l *loop) key(namespace, name, uid string) string {
	return strings.Join([]string{l.set.Load().resource.GroupResource().String(), namespace, name, uid}, "/")
}

// begin notes that the evaluation of one object begins, if it is known and no sweep runs; looking.Done ends it.
func (l *loop) begin(uid string) (known, sweeping bool) {
	l.known.Lock()
	defer l.known.Unlock()
	known = l.objects[uid] != nil
	if known && !l.sweeping {
		l.looking.Add(1)
	}
	return known, l.sweeping
}

// look evaluates a changed object.
func (s *Scanner) look(ctx context.Context, key string) (again time.Duration, err error) {
	part := strings.SplitN(key, "/", 4)
	if len(part) < 4 {
		return 0, nil // the key with which a row begins
	}
	namespace, name, uid := part[1], part[2], part[3]
	s.mu.Lock()
	l := s.loops[schema.ParseGroupResource(part[0])]
	s.mu.Unlock()
	if l == nil {
		return 0, nil
	}
	switch known, sweeping := l.begin(uid); {
	case sweeping:
		return objectQuiet, nil // the sweep may evaluate it
	case !known:
		return 0, nil
	}
	defer l.looking.Done()
	s.objects <- struct{}{}
	defer func() { <-s.objects }()
	i, err := get(ctx, s.o.Objects, l.set.Load().resource, namespace, name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil || l.evaluateIfChanged(ctx, i, false) {
		return l.failed(uid), nil
	}
	return 0, nil
}

// failed notes that an object could not be read, evaluated or reported, and returns the pause before the next attempt. It grows until an attempt
// succeeds: there may be many such objects.
func (l *loop) failed(uid string) time.Duration {
	l.known.Lock()
	defer l.known.Unlock()
	pause, again := l.failing[uid]
	if !again {
		pause = controller.Pause{First: 5 * objectQuiet, Longest: longestFailed}
	}
	next := pause.Next()
	l.failing[uid] = pause
	return next
}
