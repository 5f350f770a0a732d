package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/listwatch"
)

// The limits for reading reports.
const (
	pageSize     = 100      // reports in one page of a list, some 10 kB each
	watchFor     = 600      // the duration of a watch in seconds
	maxEvent     = 16 << 20 // bytes of an object in a watch: more than the API server stores
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// reader reads the reports of one kind.
type reader struct {
	client  rest.Interface
	kind    schema.GroupVersionResource
	cluster bool
	index   *index
	log     *slog.Logger
}

// request returns a request for reports: all, or those of a namespace.
func (r *reader) request(namespace string) *rest.Request {
	return r.client.Get().AbsPath("/apis", r.kind.Group, r.kind.Version).
		NamespaceIfScoped(namespace, namespace != "").Resource(r.kind.Resource).SetHeader("Accept", "application/json")
}

// get reads one report.
func (r *reader) get(ctx context.Context, k reportKey) (map[string]any, error) {
	body, err := r.request(k.namespace).Name(k.name).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var object map[string]any
	return object, json.Unmarshal(body, &object)
}

// put adds or updates an existing report.
func (r *reader) put(object map[string]any) reportKey {
	decoded, _ := compliance.Decode(object) // unreadable results are not counted
	k := reportKey{short(decoded.Namespace), short(decoded.Name)}
	r.index.put(k, entriesOf(decoded))
	return k
}

// follow keeps the index current until ctx is done. It calls ready once it holds all reports.
func (r *reader) follow(ctx context.Context, ready func()) {
	pause := &listwatch.Pause{First: firstPause, Longest: longestPause}
	for ctx.Err() == nil {
		version, err := r.list(ctx)
		if err == nil {
			ready()
			err = r.watch(ctx, version, pause)
		}
		if ctx.Err() != nil || err == nil {
			continue
		}
		wait := pause.Next()
		r.log.Warn("the dashboard cannot follow the reports, will try again", "kind", r.kind.Resource, "in", wait, "error", err)
		listwatch.Sleep(ctx, wait)
	}
}

// list reads all reports, page by page.
func (r *reader) list(ctx context.Context) (version string, err error) {
	r.index.begin()
	listed := map[reportKey]bool{}
	for next := ""; ; {
		request := r.request("").Param("limit", strconv.Itoa(pageSize))
		if next != "" {
			request.Param("continue", next)
		}
		body, err := request.Do(ctx).Raw()
		if listwatch.GoesOn(err, &next) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("list %s: %w", r.kind.Resource, err)
		}
		var page struct {
			Metadata metav1.ListMeta  `json:"metadata"`
			Items    []map[string]any `json:"items"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return "", fmt.Errorf("list %s: %w", r.kind.Resource, err)
		}
		for _, object := range page.Items {
			listed[r.put(object)] = true
		}
		if version == "" {
			version = page.Metadata.ResourceVersion
		}
		if next = page.Metadata.Continue; next == "" {
			break
		}
	}
	r.index.retain(r.cluster, listed)
	return version, nil
}

// watch applies changes until the version to continue from has expired; that is not an error.
func (r *reader) watch(ctx context.Context, version string, pause *listwatch.Pause) error {
	for ctx.Err() == nil {
		began := time.Now()
		stream, err := r.request("").Param("watch", "true").Param("allowWatchBookmarks", "true").
			Param("resourceVersion", version).Param("timeoutSeconds", strconv.Itoa(watchFor)).Stream(ctx)
		if err == nil {
			version, err = r.take(stream, version)
		}
		switch {
		case apierrors.IsGone(err) || apierrors.IsResourceExpired(err):
			pause.After(ctx, began, nil)
			return nil
		case err != nil && ctx.Err() == nil:
			pause.Worked(began)
			return fmt.Errorf("watch %s: %w", r.kind.Resource, err)
		}
		pause.After(ctx, began, nil)
	}
	return nil
}

// take applies the events of one watch and returns the version to continue from.
func (r *reader) take(stream io.ReadCloser, version string) (string, error) {
	defer stream.Close()
	bounded := &io.LimitedReader{R: stream}
	events := json.NewDecoder(bounded)
	for {
		var event struct {
			Type   string         `json:"type"`
			Object map[string]any `json:"object"`
		}
		bounded.N = maxEvent
		switch err := events.Decode(&event); {
		case errors.Is(err, io.EOF) && bounded.N > 0:
			return version, nil // it ended after its normal duration
		case err != nil:
			return version, err
		}
		if event.Type == "ERROR" {
			return version, statusError(event.Object)
		}
		seen := unstructured.Unstructured{Object: event.Object}
		version = seen.GetResourceVersion()
		switch event.Type {
		case "ADDED", "MODIFIED":
			r.put(event.Object)
		case "DELETED":
			r.index.remove(reportKey{seen.GetNamespace(), seen.GetName()})
		}
	}
}

// statusError returns the error at the end of a watch.
func statusError(object map[string]any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	failed := metav1.Status{}
	if err := json.Unmarshal(text, &failed); err != nil {
		return err
	}
	return &apierrors.StatusError{ErrStatus: failed}
}
