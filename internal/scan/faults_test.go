package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// configMaps is an API server with ConfigMaps c0, c1 …, whose lists are valid for a while, and whose watches end at once. It opens no
// connections, so that it works within a synctest bubble.
type configMaps struct {
	metadata.Getter
	n     int
	valid time.Duration // how long the token of a list is valid; 0 for ever
	watch error         // of watches; nil for those that end at once

	gone           atomic.Bool // the kind is not served
	lists, watches atomic.Int64
}

func (c *configMaps) RoundTrip(r *http.Request) (*http.Response, error) {
	if name, one := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/a/configmaps/c"); one {
		return answer(http.StatusOK, fmt.Sprintf(`{"metadata": {"name": "c%s", "namespace": "a", "uid": "%s"}}`, name, name)), nil
	}
	if c.gone.Load() {
		return answer(http.StatusNotFound, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`), nil
	}
	query := r.URL.Query()
	first, began := 0, time.Now()
	if token := query.Get("continue"); token == "" {
		c.lists.Add(1)
	} else {
		at, since, _ := strings.Cut(token, "-")
		first, _ = strconv.Atoi(at)
		nanos, _ := strconv.ParseInt(since, 10, 64)
		if began = time.Unix(0, nanos); c.valid > 0 && nanos > 0 && time.Since(began) > c.valid {
			return answer(http.StatusGone, fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "metadata": {"continue": "%d-0"}, "status": "Failure", "reason": "Expired", "code": 410}`, first)), nil
		}
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	var items []string
	for i := first; i < min(c.n, first+limit); i++ {
		items = append(items, fmt.Sprintf(`{"metadata": {"name": "c%d", "namespace": "a", "uid": "%d"}}`, i, i))
	}
	next := ""
	if first+limit < c.n {
		next = fmt.Sprintf("%d-%d", first+limit, began.UnixNano())
	}
	return answer(http.StatusOK, fmt.Sprintf(`{"kind": "ConfigMapList", "metadata": {"resourceVersion": "9", "continue": "%s"}, "items": [%s]}`, next, strings.Join(items, ","))), nil
}

func answer(code int, text string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text))}
}

func (c *configMaps) Resource(schema.GroupVersionResource) metadata.Getter { return c }

func (c *configMaps) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	c.watches.Add(1)
	if c.gone.Load() {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "")
	}
	if c.watch != nil {
		return nil, c.watch
	}
	w := watch.NewFake()
	w.Stop()
	return w, nil
}

// loop returns the loop that scans the ConfigMaps.
func (c *configMaps) loop(t *testing.T, eval func(context.Context, engine.Input) policy.Outcome) *loop {
	t.Helper()
	client, err := rest.UnversionedRESTClientFor(dynamic.ConfigFor(&rest.Config{Host: "http://api", Transport: c, QPS: -1}))
	if err != nil {
		t.Fatal(err)
	}
	p := rule(t, "", `resources: {kinds: [ConfigMap]}`, pattern)
	s := New(Options{
		Observer: unobserved{}, Objects: client, Metadata: c, Sink: &sink{}, Workers: 1, Log: slog.New(slog.DiscardHandler), Now: time.Now, Interval: time.Hour,
		Conf: func() policy.Conf { return policy.Conf{} }, Eval: eval,
	})
	l := newLoop(s)
	l.set.Store(&set{resource: Resource{served[2].GVR(), served[2].Kind}, snapshot: catalog.NewStatic([]*policy.Program{p}), programs: []*policy.Program{p}, revision: 1, changes: []change{{revision: 1}}})
	return l
}

// A kind that can be listed but not watched, or whose watches end at once, is asked for rarely.
func TestWatchesThatEndAtOnce(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	for name, err := range map[string]error{
		"end at once":   nil,
		"forbidden":     apierrors.NewForbidden(resource, "", errors.New("no right to watch")),
		"not found":     apierrors.NewNotFound(resource, ""),
		"not supported": apierrors.NewMethodNotSupported(resource, "watch"),
		"too old":       apierrors.NewResourceExpired("too old resource version"),
		"unavailable":   apierrors.NewServiceUnavailable("try later"),
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &configMaps{watch: err}
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
			defer stop()
			c.loop(t, nil).run(ctx)
			if lists, watches := c.lists.Load(), c.watches.Load(); lists > 20 || watches > 20 || watches == 0 {
				t.Errorf("%s: %d lists and %d watches in 10 minutes", name, lists, watches)
			}
		})
	}
}

// A kind that is gone for a while, as when its definition is deleted and made again, is scanned again soon after it is back. While it is gone, it is
// asked for rarely.
func TestKindThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, away := range []time.Duration{2 * time.Minute, time.Hour} {
			c := &configMaps{}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); c.loop(t, nil).run(ctx) }()
			time.Sleep(10 * time.Minute)
			c.gone.Store(true)
			time.Sleep(away)
			c.gone.Store(false)
			before := c.lists.Load()
			time.Sleep(min(away, unlistablePoll) + time.Second)
			if c.lists.Load() == before {
				t.Errorf("%v after its absence of %v, the kind is not listed", min(away, unlistablePoll), away)
			}
			stop()
			<-ended
		}
	})
}

// A sweep that takes longer than the token of a list is valid reaches the last object, and evaluates each object once.
func TestSweepIsLongerThanItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 1000
		var evaluated sync.Map
		c := &configMaps{n: objects, valid: 4 * time.Minute}
		l := c.loop(t, func(_ context.Context, in engine.Input) policy.Outcome {
			time.Sleep(time.Second)
			if _, twice := evaluated.LoadOrStore(in.Request.Name, true); twice {
				t.Errorf("%s is evaluated twice", in.Request.Name)
			}
			return policy.Outcome{Request: in.Request}
		})
		if _, err := l.sweep(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if _, last := evaluated.Load(fmt.Sprint("c", objects-1)); !last || len(l.objects) != objects {
			t.Errorf("%d of %d objects are known", len(l.objects), objects)
		}
	})
}

// failingSink cannot write the reports of most objects.
type failingSink struct {
	sink
	broken atomic.Bool // for all objects but c2
	puts   sync.Map    // by name: *atomic.Int64
}

func (f *failingSink) Put(_ context.Context, out policy.Outcome, _ report.Evaluated) (bool, error) {
	n, _ := f.puts.LoadOrStore(out.Request.Name, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	if f.broken.Load() && out.Request.Name != "c2" {
		return false, errors.New("no right")
	}
	return true, nil
}

func (f *failingSink) of(name string) int64 {
	n, _ := f.puts.LoadOrStore(name, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

// evaluating lets a scanner know n objects of namespace a in a loop, asks for their evaluation, and runs the rows that evaluate until stop is
// called.
func evaluating(l *loop, n int) (stop func()) {
	s := l.s
	s.loops[l.set.Load().resource.GroupResource()] = l
	for i := range n {
		uid := strconv.Itoa(i)
		l.objects[uid] = &object{namespace: "a", name: "c" + uid, revision: 1}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controller.RunRows(ctx, s.Rows()[3:], s.o.Log, nil)
	}()
	synctest.Wait()
	l.againIn("a")
	return func() { cancel(); <-ended }
}

// An object whose report cannot be written is evaluated again after pauses that grow to five minutes. The others do not wait for it: a change
// is evaluated within seconds.
func TestObjectsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&configMaps{n: 3}).loop(t, func(_ context.Context, in engine.Input) policy.Outcome { return policy.Outcome{Request: in.Request} })
		s, to := l.s, &failingSink{}
		s.o.Sink = to
		to.broken.Store(true)
		stop := evaluating(l, 3)
		time.Sleep(50 * time.Minute)
		if n := to.of("c0"); n < 10 || n > 18 {
			t.Errorf("an object whose report cannot be written was evaluated %d times in 50 minutes", n)
		}
		before := to.of("c2")
		l.again("2")
		time.Sleep(objectQuiet + time.Second)
		if to.of("c2") != before+1 {
			t.Error("another object waits for those that fail")
		}
		to.broken.Store(false)
		before = to.of("c0")
		time.Sleep(longestFailed + time.Second)
		l.known.Lock()
		failing := len(l.failing)
		l.known.Unlock()
		if to.of("c0") != before+1 || failing > 0 {
			t.Error("the object is not evaluated again after the failures")
		}
		stop()
	})
}

// Every request for another evaluation is carried out, however many there are, also one that comes during an evaluation.
func TestEveryRequestIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 12_000
		var evaluated atomic.Int64
		during := func() {}
		l := (&configMaps{n: objects}).loop(t, func(_ context.Context, in engine.Input) policy.Outcome {
			evaluated.Add(1)
			during()
			return policy.Outcome{Request: in.Request}
		})
		stop := evaluating(l, objects)
		time.Sleep(time.Minute)
		if n := evaluated.Load(); n != objects {
			t.Errorf("%d of %d evaluations", n, objects)
		}
		synctest.Wait() // nothing evaluates
		during = sync.OnceFunc(func() { l.again("7") })
		l.again("7")
		time.Sleep(time.Minute)
		if n := evaluated.Load(); n != objects+2 {
			t.Errorf("%d evaluations after a request during an evaluation, want 2", n-objects)
		}
		stop()
	})
}

// A policy for all kinds does not scan kinds that can be listed and not watched; one that names such a kind does.
func TestPlanOfKindsThatCannotBeWatched(t *testing.T) {
	metrics := resources{
		{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods", Kind: "PodMetrics", Namespaced: true, Listable: true},
		{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true, Listable: true, Watchable: true},
	}
	for kinds, want := range map[string]string{`"*"`: "Pod", `"PodM*"`: "", "PodMetrics": "PodMetrics"} {
		found, err := plan(catalog.NewStatic([]*policy.Program{rule(t, "", `resources: {kinds: [`+kinds+`]}`, pattern)}), discovery.Resources(metrics))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range found {
			got += s.resource.Kind
		}
		if got != want {
			t.Errorf("%s scans %q, want %q", kinds, got, want)
		}
	}
}
