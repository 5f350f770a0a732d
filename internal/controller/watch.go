package controller

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watchSeconds is how long one watch lasts; the API server may end it sooner.
const watchSeconds = int64(600)

// Watch watches objects from options.ResourceVersion on, and hands each event over except bookmarks. A watch that ends is opened again, after
// the pause if it has not lasted. Watch returns no error when ctx is done, or when the API server no longer has the version and the objects
// must be listed again. After an error, of a watch or of the function, the caller pauses, and may continue from the version.
func Watch(ctx context.Context, options metav1.ListOptions, open func(context.Context, metav1.ListOptions) (watch.Interface, error), pause *Pause, event func(watch.Event) error) (version string, err error) {
	seconds := watchSeconds
	options.Limit, options.AllowWatchBookmarks, options.TimeoutSeconds = 0, true, &seconds
	for ctx.Err() == nil {
		began := time.Now()
		w, err := open(ctx, options)
		if err == nil {
			err = relay(ctx, w, &options.ResourceVersion, event)
		}
		switch {
		case ctx.Err() != nil:
			return options.ResourceVersion, nil
		case apierrors.IsGone(err), apierrors.IsResourceExpired(err):
			pause.After(ctx, began)
			return "", nil
		case err != nil:
			pause.Lasted(began)
			return options.ResourceVersion, err
		}
		pause.After(ctx, began)
	}
	return options.ResourceVersion, nil
}

// relay hands over the events of one watch, and keeps the version to continue from.
func relay(ctx context.Context, w watch.Interface, version *string, event func(watch.Event) error) error {
	defer End(w)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if e.Type == watch.Error {
				return apierrors.FromObject(e.Object)
			}
			o, err := meta.CommonAccessor(e.Object)
			if err != nil {
				return err
			}
			if e.Type != watch.Bookmark {
				if err := event(e); err != nil {
					return err
				}
			}
			*version = o.GetResourceVersion()
		}
	}
}

// End ends a watch. It receives what the watch still sends: the goroutine of a watch of metadata (watch.Filter) would wait for that for ever.
func End(w watch.Interface) {
	w.Stop()
	for range w.ResultChan() {
	}
}
