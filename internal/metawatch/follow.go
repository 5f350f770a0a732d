package metawatch

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Resource lists and watches the metadata of objects; those of k8s.io/client-go/metadata are such.
type Resource interface {
	List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Handler takes in what is seen. The functions are called one after the other, and may not change the objects.
type Handler struct {
	// Seen is called for each object that is listed, and for each one that is added or changed.
	Seen func(*metav1.PartialObjectMetadata)
	// Gone is called for each object that is deleted while it is watched.
	Gone func(*metav1.PartialObjectMetadata)
	// Listed is called at the end of each list: what was not seen since the call before is not there.
	Listed func()
}

const (
	// pageSize is the number of objects that are listed at once.
	pageSize = 500
	// watchSeconds is how long one watch lasts.
	watchSeconds = int64(600)
	// firstPause and longestPause are between two attempts after a failure.
	firstPause, longestPause = 500 * time.Millisecond, 30 * time.Second
)

// Follow follows the resource until ctx is done. The error says why the resource cannot be listed: it is not served, or the account may
// not list or watch it. Other failures are retried.
func Follow(ctx context.Context, r Resource, options metav1.ListOptions, h Handler) error {
	pause := firstPause
	for ctx.Err() == nil {
		version, err := list(ctx, r, options, h)
		if err == nil {
			pause = firstPause
			err = tail(ctx, r, options, version, h)
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case Hopeless(err):
			return err
		default:
			sleep(ctx, pause)
			pause = min(2*pause, longestPause)
		}
	}
	return nil
}

// Hopeless reports whether a resource cannot be followed until something else changes: it is not served, or not allowed.
func Hopeless(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsForbidden(err)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// list shows everything that exists, and returns the version from which it can be watched.
func list(ctx context.Context, r Resource, options metav1.ListOptions, h Handler) (version string, err error) {
	options.Limit = pageSize
	for {
		page, err := r.List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			h.Seen(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			h.Listed()
			return page.ResourceVersion, nil
		}
	}
}

// tail shows what changes from the version on, until the versions are gone from which it could go on.
func tail(ctx context.Context, r Resource, options metav1.ListOptions, version string, h Handler) error {
	pause := firstPause
	for ctx.Err() == nil {
		seconds := watchSeconds
		options.ResourceVersion, options.AllowWatchBookmarks, options.TimeoutSeconds = version, true, &seconds
		w, err := r.Watch(ctx, options)
		if err == nil {
			version, err = relay(ctx, w, version, h)
		}
		switch {
		case err == nil:
			pause = firstPause
			continue
		case apierrors.IsGone(err), apierrors.IsResourceExpired(err):
			return nil
		case Hopeless(err):
			return err
		}
		sleep(ctx, pause)
		pause = min(2*pause, longestPause)
	}
	return nil
}

// relay shows the events of one watch and returns the version to go on from.
func relay(ctx context.Context, w watch.Interface, version string, h Handler) (string, error) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case e, open := <-w.ResultChan():
			if !open {
				return version, nil
			}
			if e.Type == watch.Error {
				return version, apierrors.FromObject(e.Object)
			}
			m, ok := e.Object.(*metav1.PartialObjectMetadata)
			if !ok {
				return version, errors.New("the watch sends something else than metadata")
			}
			version = m.ResourceVersion
			switch e.Type {
			case watch.Added, watch.Modified:
				h.Seen(m)
			case watch.Deleted:
				h.Gone(m)
			}
		}
	}
}
