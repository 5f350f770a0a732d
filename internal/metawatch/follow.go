package metawatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/listwatch"
)

// Resource lists and watches the metadata of objects, as the resources of k8s.io/client-go/metadata do.
type Resource interface {
	List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Handler receives events. Its functions are called one at a time, and may not change the objects.
type Handler struct {
	// Seen is called for each object that is listed, added or changed.
	Seen func(*metav1.PartialObjectMetadata)
	// Gone is called for each object that is deleted during a watch.
	Gone func(*metav1.PartialObjectMetadata)
	// Listed is called at the end of each list, with the names of all objects that existed at its resource version.
	Listed func(names map[types.NamespacedName]bool, version string)
	// Failed is called before each pause that follows a failure: the resource is not served, the account may not list or watch it,
	// or the API server does not answer.
	Failed func(err error, pause time.Duration)
}

const (
	// pageSize is the number of objects in one page of a list.
	pageSize = 500
	// watchSeconds is how long one watch lasts.
	watchSeconds = int64(600)
	// firstPause and longestPause bound the pause between two attempts after a failure.
	firstPause, longestPause = 500 * time.Millisecond, 30 * time.Second
)

// Follow follows the resource until ctx is done, and lists it again after a failure.
func Follow(ctx context.Context, r Resource, options metav1.ListOptions, h Handler) {
	pause := &listwatch.Pause{First: firstPause, Longest: longestPause}
	for ctx.Err() == nil {
		version, err := list(ctx, r, options, h)
		if err == nil {
			err = tail(ctx, r, options, version, h, pause)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		wait := pause.Next()
		h.Failed(err, wait)
		listwatch.Sleep(ctx, wait)
	}
}

// list reports all objects, and returns the version from which to watch them.
func list(ctx context.Context, r Resource, options metav1.ListOptions, h Handler) (version string, err error) {
	options.Limit = pageSize
	names := map[types.NamespacedName]bool{}
	for {
		page, err := r.List(ctx, options)
		if listwatch.GoesOn(err, &options.Continue) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("list: %w", err)
		}
		if version == "" {
			version = page.ResourceVersion
		}
		for i := range page.Items {
			m := &page.Items[i]
			names[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}] = true
			h.Seen(m)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			h.Listed(names, version)
			return version, nil
		}
	}
}

// tail reports changes since the version. It returns nil if the API server no longer has that version.
func tail(ctx context.Context, r Resource, options metav1.ListOptions, version string, h Handler, pause *listwatch.Pause) error {
	for ctx.Err() == nil {
		began := time.Now()
		seconds := watchSeconds
		options.ResourceVersion, options.AllowWatchBookmarks, options.TimeoutSeconds = version, true, &seconds
		w, err := r.Watch(ctx, options)
		if err == nil {
			version, err = relay(ctx, w, version, h)
		}
		switch {
		case apierrors.IsGone(err), apierrors.IsResourceExpired(err):
			pause.After(ctx, began, nil)
			return nil
		case err != nil:
			pause.Worked(began)
			return fmt.Errorf("watch: %w", err)
		}
		pause.After(ctx, began, nil)
	}
	return nil
}

// relay reports the events of one watch and returns the version to continue from.
func relay(ctx context.Context, w watch.Interface, version string, h Handler) (string, error) {
	defer controller.End(w)
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
				return version, errors.New("the watch sent an object that is not metadata")
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
