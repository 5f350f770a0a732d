package reports

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/ephor-dev/ephor/internal/report"
)

// pageSize is how many reports are listed at once, as metadata.
const pageSize = 500

// The pause after a failed round.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// watchSeconds is how long one watch lasts.
const watchSeconds = int64(600)

// Run follows the reports until ctx is done. It forgets its earlier state, and calls ready once it knows all reports.
func (w *Writer) Run(ctx context.Context, ready func()) {
	w.mu.Lock()
	w.known = map[string]*state{}
	w.mu.Unlock()
	var running, listed sync.WaitGroup
	for _, gvr := range []schema.GroupVersionResource{w.o.Form.Namespaced, w.o.Form.Cluster} {
		listed.Add(1)
		running.Go(func() { w.follow(ctx, w.o.Metadata.Resource(gvr), gvr, sync.OnceFunc(listed.Done)) })
	}
	all := make(chan struct{})
	go func() { listed.Wait(); close(all) }()
	select {
	case <-all:
		ready()
	case <-ctx.Done():
	}
	running.Wait()
}

// follow lists and watches one kind.
func (w *Writer) follow(ctx context.Context, r metadata.Getter, gvr schema.GroupVersionResource, ready func()) {
	defer ready()
	pause := firstPause
	for ctx.Err() == nil {
		version, err := w.list(ctx, r, gvr == w.o.Form.Cluster)
		if err == nil {
			ready()
			pause = firstPause
			err = w.watch(ctx, r, version)
		}
		if ctx.Err() != nil || err == nil {
			continue
		}
		w.o.Log.Warn("reports cannot be followed, will try again", "kind", gvr.Resource, "in", pause, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

const ours = report.ManagedLabel + "=" + report.ManagedValue

// list reads all reports of the kind.
func (w *Writer) list(ctx context.Context, r metadata.Getter, cluster bool) (version string, err error) {
	seen := map[string]bool{}
	options := metav1.ListOptions{LabelSelector: ours, Limit: pageSize}
	for {
		page, err := r.List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("list reports: %w", err)
		}
		if version == "" {
			version = page.ResourceVersion
		}
		for i := range page.Items {
			seen[page.Items[i].Name] = true
			w.saw(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	type lost struct {
		uid string
		st  *state
	}
	var gone []lost
	w.mu.Lock()
	for uid, st := range w.known {
		// The list lacks reports that were written after it.
		if !seen[uid] && (st.namespace == "") == cluster && !st.writing && !newer(st.version, version) {
			gone = append(gone, lost{uid, st})
			delete(w.known, uid)
		}
	}
	w.mu.Unlock()
	for _, l := range gone {
		w.again(l.uid, l.st)
	}
	return version, nil
}

// watch follows the changes until the watched version has expired, which is no error.
func (w *Writer) watch(ctx context.Context, r metadata.Getter, version string) error {
	for ctx.Err() == nil {
		seconds := watchSeconds
		stream, err := r.Watch(ctx, metav1.ListOptions{
			LabelSelector: ours, ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
		})
		if err == nil {
			version, err = w.take(ctx, stream, version)
		}
		switch {
		case apierrors.IsGone(err) || apierrors.IsResourceExpired(err):
			return nil
		case err != nil:
			return fmt.Errorf("watch reports: %w", err)
		}
	}
	return nil
}

func (w *Writer) take(ctx context.Context, stream watch.Interface, version string) (string, error) {
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case e, open := <-stream.ResultChan():
			if !open {
				return version, nil
			}
			if e.Type == watch.Error {
				return version, apierrors.FromObject(e.Object)
			}
			m, ok := e.Object.(*metav1.PartialObjectMetadata)
			if !ok {
				return version, errors.New("the watch sends something else")
			}
			version = m.ResourceVersion
			switch e.Type {
			case watch.Added, watch.Modified:
				w.saw(m)
			case watch.Deleted:
				w.missed(m)
			}
		}
	}
}

// saw records the state of an existing report.
func (w *Writer) saw(m *metav1.PartialObjectMetadata) {
	w.mu.Lock()
	st := w.known[m.Name]
	fresh := st == nil
	if fresh {
		st = &state{namespace: w.shared(m.Namespace)}
		w.known[m.Name] = st
	}
	strange := false
	switch {
	case st.writing:
		if newer(m.ResourceVersion, st.foreign) {
			st.foreign = m.ResourceVersion
		}
	case fresh || newer(m.ResourceVersion, st.version):
		st.version, st.loaded, strange = m.ResourceVersion, false, true
		w.owned(st, m.OwnerReferences)
	}
	again := *st
	w.mu.Unlock()
	if strange {
		w.again(m.Name, &again)
	}
}

// missed records the deletion of a report: with its resource, or by another client.
func (w *Writer) missed(m *metav1.PartialObjectMetadata) {
	w.mu.Lock()
	st := w.known[m.Name]
	if st == nil || st.writing || newer(st.version, m.ResourceVersion) {
		w.mu.Unlock()
		return
	}
	delete(w.known, m.Name)
	again := *st
	w.mu.Unlock()
	w.again(m.Name, &again)
}
