package scan

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/listwatch"
)

// watchSeconds is the length of one watch; the API server may end it sooner.
const watchSeconds = int64(600)

// watch sends changes until ctx is done, or until all objects must be listed again: the version to continue from has expired, or the kind
// cannot be watched.
func (l *loop) watch(ctx context.Context, s *set, version string, events chan<- watch.Event) {
	client := l.s.o.Metadata.Resource(s.resource.GroupVersionResource)
	for ctx.Err() == nil {
		began := time.Now()
		seconds := watchSeconds
		w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
		if err == nil {
			version, err = relay(ctx, w, version, events)
		}
		switch {
		case apierrors.IsGone(err) || apierrors.IsResourceExpired(err):
			l.watches.After(ctx, began, nil)
			return
		case unlistable(err):
			listwatch.Sleep(ctx, unlistablePoll) // the kind can be listed, and not watched
			return
		}
		l.watches.After(ctx, began, err)
	}
}

// relay forwards the events of one watch and returns the version to continue from.
func relay(ctx context.Context, w watch.Interface, version string, events chan<- watch.Event) (string, error) {
	defer controller.End(w)
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case e, open := <-w.ResultChan():
			if !open {
				return version, nil
			}
			switch e.Type {
			case watch.Error:
				return version, apierrors.FromObject(e.Object)
			case watch.Bookmark, watch.Added, watch.Modified, watch.Deleted:
				m, ok := e.Object.(*metav1.PartialObjectMetadata)
				if !ok {
					return version, errors.New("the watch sent an unexpected object")
				}
				version = m.ResourceVersion
				if e.Type == watch.Bookmark {
					continue
				}
				select {
				case <-ctx.Done():
					return version, nil
				case events <- e:
				}
			}
		}
	}
}
