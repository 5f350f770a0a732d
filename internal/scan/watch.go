package scan

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"ephor.invalid/ephor/internal/controller"
)

// watch sends changes until ctx is done, or until all objects must be listed again: the version to continue from has expired, or the kind
// cannot be watched.
func (l *loop) watch(ctx context.Context, s *set, version string, events chan<- watch.Event) {
	client := l.s.o.Metadata.Resource(s.resource.GroupVersionResource)
	for ctx.Err() == nil {
		var err error
		version, err = controller.Watch(ctx, metav1.ListOptions{ResourceVersion: version}, client.Watch, &l.watches, func(e watch.Event) error {
			select {
			case <-ctx.Done():
			case events <- e:
			}
			return nil
		})
		switch {
		case err == nil:
			return
		case unlistable(err):
			controller.Sleep(ctx, unlistablePoll) // the kind can be listed, and not watched
			return
		}
		controller.Sleep(ctx, l.watches.Next())
	}
}
