package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/controller"
)

// The limits for reading reports.
const (
	pageSize     = 100      // reports in one page of a list, some 10 kB each
	maxEvent     = 16 << 20 // bytes of an object in a watch: more than the API server stores
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// reader reads the reports of one kind.
type reader struct {
	client  rest.Interface // of package cluster, which limits the size of pages
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
	pause := &controller.Pause{First: firstPause, Longest: longestPause}
	for ctx.Err() == nil {
		version, err := r.list(ctx)
		if err == nil {
			ready()
			_, err = controller.Watch(ctx, metav1.ListOptions{ResourceVersion: version}, r.watch, pause, r.event)
		}
		if ctx.Err() != nil || err == nil {
			continue
		}
		wait := pause.Next()
		r.log.Warn("the dashboard cannot follow the reports, will try again", "kind", r.kind.Resource, "in", wait, "error", err)
		controller.Sleep(ctx, wait)
	}
}

// reportPage is a page of reports.
type reportPage struct {
	Metadata metav1.ListMeta  `json:"metadata"`
	Items    []map[string]any `json:"items"`
}

// GetResourceVersion and GetContinue implement controller.Page.
func (p *reportPage) GetResourceVersion() string { return p.Metadata.ResourceVersion }
func (p *reportPage) GetContinue() string        { return p.Metadata.Continue }

// list reads all reports, page by page.
func (r *reader) list(ctx context.Context) (version string, err error) {
	r.index.begin(r.cluster)
	listed := map[reportKey]bool{}
	read := func(ctx context.Context, o metav1.ListOptions) (*reportPage, error) {
		body, err := r.request("").SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.SchemeGroupVersion).Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		p := &reportPage{}
		return p, json.Unmarshal(body, p)
	}
	version, err = controller.Pages(ctx, metav1.ListOptions{Limit: pageSize}, read, func(p *reportPage) error {
		for _, object := range p.Items {
			listed[r.put(object)] = true
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("list %s: %w", r.kind.Resource, err)
	}
	r.index.retain(r.cluster, listed)
	return version, nil
}

// watch opens a watch.
func (r *reader) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	stream, err := r.request("").SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.SchemeGroupVersion).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", r.kind.Resource, err)
	}
	bounded := &io.LimitedReader{R: stream}
	return watch.NewStreamWatcher(&decoder{stream, bounded, json.NewDecoder(bounded)}, decoding{}), nil
}

// event applies a change.
func (r *reader) event(e watch.Event) error {
	o, ok := e.Object.(*unstructured.Unstructured)
	switch {
	case !ok:
		return fmt.Errorf("watch %s: unexpected object", r.kind.Resource)
	case e.Type == watch.Deleted:
		r.index.remove(reportKey{o.GetNamespace(), o.GetName()})
	default:
		r.put(o.Object)
	}
	return nil
}

// decoder reads the events of one watch, each with a bounded size.
type decoder struct {
	stream  io.Closer
	bounded *io.LimitedReader
	events  *json.Decoder
}

// Decode implements watch.Decoder.
func (d *decoder) Decode() (watch.EventType, runtime.Object, error) {
	var event struct {
		Type   watch.EventType `json:"type"`
		Object map[string]any  `json:"object"`
	}
	d.bounded.N = maxEvent
	if err := d.events.Decode(&event); err != nil {
		if errors.Is(err, io.EOF) && d.bounded.N <= 0 {
			err = errors.New("an event is too large")
		}
		return "", nil, err
	}
	if event.Type != watch.Error {
		return event.Type, &unstructured.Unstructured{Object: event.Object}, nil
	}
	failed := &metav1.Status{}
	return event.Type, failed, runtime.DefaultUnstructuredConverter.FromUnstructured(event.Object, failed)
}

// Close implements watch.Decoder.
func (d *decoder) Close() { _ = d.stream.Close() }

// decoding makes the error of an event that cannot be decoded the last event of its watch.
type decoding struct{}

// AsObject implements watch.Reporter.
func (decoding) AsObject(err error) runtime.Object {
	return &metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
}
