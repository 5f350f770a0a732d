package scan

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watchSeconds is how long one watch lasts; the API server ends it sooner when it wants to.
const watchSeconds = int64(600)

// watch sends what changes until ctx is done, or until the versions are gone from which one could go on.
func (l *loop) watch(ctx context.Context, s *set, version string, events chan<- watch.Event) {
	client := l.s.o.Metadata.Resource(s.resource.GroupVersionResource)
	pause := firstPause
	for ctx.Err() == nil {
		seconds := watchSeconds
		w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
		if err == nil {
			version, err = relay(ctx, w, version, events)
		}
		switch {
		case err == nil:
			pause = firstPause
			continue
		case apierrors.IsGone(err) || apierrors.IsResourceExpired(err) || unlistable(err):
			return
		}
		wait(ctx, pause, nil)
		pause = min(2*pause, longestPause)
	}
}

// relay passes the events of one watch on and returns the version to go on from.
func relay(ctx context.Context, w watch.Interface, version string, events chan<- watch.Event) (string, error) {
	defer w.Stop()
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
					return version, errors.New("the watch sends something else")
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
