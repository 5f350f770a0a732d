package reports

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/ring"
)

// ConsumerOptions are the options of a Consumer. All are required, except where noted.
type ConsumerOptions struct {
	Writer *Writer
	// Client lists, watches and deletes EphemeralReports; its scheme knows reports.kyverno.io/v1.
	Client client.WithWatch
	// Metadata finds the resources of results.
	Metadata metadata.Interface
	// Wanted returns, for a kind, the rules whose results are accepted: rules that exist, are reported, and are not evaluated by scans of
	// the kind.
	Wanted func(schema.GroupKind) func(report.Rule) bool
	// Keys verify the seals of EphemeralReports. Reports without a valid seal are deleted without effect, and Doubts is called.
	Keys   ephemeral.Keys
	Doubts *ephemeral.Doubts
	// Share decides which resources this process handles, by their namespace; cluster-wide ones by a slash and the resource name. nil for all.
	Share controller.Share
	// Workers is the number of resources that are handled at the same time.
	Workers int
	Log     *slog.Logger
	Now     func() time.Time
}

// ConsumerName is the controller's name in metrics.
const ConsumerName = "aggregate-report-controller"

// Consumer merges EphemeralReports into the reports, and deletes them. It ignores those without a seal of our controllers, because users
// may write them.
type Consumer struct {
	o    ConsumerOptions
	room *semaphore.Weighted // for the bytes of the EphemeralReports in memory

	mu      sync.Mutex
	waiting map[string]*waiting        // by resource
	lists   map[int]context.CancelFunc // by kind: ends the watch, so that everything is listed again
	left    time.Time                  // since when some are left that are not in memory; zero for none
	wait    time.Duration              // how long they are left
	retries controller.Pause           // of those that could not be merged or deleted
	failed  time.Time                  // when the last of them failed
	named   *names
	namedAt time.Time

	unreadable sync.Map // kinds for which a line was logged
}

// waiting are the EphemeralReports about a resource that are in memory.
type waiting struct {
	objects map[client.ObjectKey]client.Object // each in its latest version
	bytes   int64                              // of the room
}

// NewConsumer returns a Consumer that does nothing yet.
func NewConsumer(o ConsumerOptions) *Consumer {
	if o.Share == nil {
		o.Share = ring.Alone{}
	}
	return &Consumer{o: o, room: semaphore.NewWeighted(maxMemory), waiting: map[string]*waiting{}, lists: map[int]context.CancelFunc{}}
}

const (
	// takePage is the number of EphemeralReports in a page of a list.
	takePage = 100
	// maxMemory bounds the EphemeralReports in memory, as JSON: the admin of a namespace may write any number of 1.5 MB each. Each counts perReport
	// more.
	maxMemory, perReport = 16 << 20, 4 << 10
	// takeAfter is how long the first event of a resource waits for further events.
	takeAfter = 300 * time.Millisecond
	// retryTake is the pause before EphemeralReports are listed again whose resource does not exist yet. After failures it grows to longestTake:
	// all of them are listed.
	retryTake, longestTake = 10 * time.Second, 5 * time.Minute
	// patience is the maximum age of an EphemeralReport whose resource does not exist: the resource's creation was probably denied.
	patience = 2 * time.Minute
)

// Row returns the row that merges results, once the Writer knows the reports. Its keys are resources, and an empty one when the share of this
// replica changes.
func (c *Consumer) Row() controller.Row {
	row := controller.Row{Name: ConsumerName, Owner: controller.Inside(c.o.Share), Reconcile: c.Reconcile, Workers: c.o.Workers, Collect: takeAfter}
	for kind, of := range []func() client.ObjectList{
		func() client.ObjectList { return &reportsv1.EphemeralReportList{} },
		func() client.ObjectList { return &reportsv1.ClusterEphemeralReportList{} },
	} {
		row.Sources = append(row.Sources, controller.Func(func(ctx context.Context, add func(string)) error {
			select {
			case <-ctx.Done():
			case <-c.o.Writer.Ready():
			}
			for ctx.Err() == nil {
				c.follow(ctx, kind, of, add)
			}
			return nil
		}))
	}
	return row
}

// follow lists and watches one kind until ctx is done or everything must be listed again. It follows those of other authors, too, since they are
// deleted.
func (c *Consumer) follow(ctx context.Context, kind int, of func() client.ObjectList, add func(string)) {
	ctx, again := context.WithCancel(ctx)
	defer again()
	c.mu.Lock()
	c.lists[kind] = again
	c.mu.Unlock()
	r := controller.Reflector[client.Object]{
		From: ephemerals{c.o.Client, of}, Options: metav1.ListOptions{Limit: takePage}, Key: keyOf,
		Sink: controller.Sink[client.Object]{
			Seen: func(o client.Object) error { c.see(ctx, o); return nil },
			Failed: func(err error, wait time.Duration) {
				c.o.Log.Warn("cannot follow results of admission, will try again", "in", wait, "error", err)
			},
		},
	}
	_ = r.Start(ctx, add)()
}

// ephemerals lists and watches one kind of EphemeralReports.
type ephemerals struct {
	client client.WithWatch
	of     func() client.ObjectList
}

func (e ephemerals) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list := e.of()
	return list, e.client.List(ctx, list, client.Limit(o.Limit), client.Continue(o.Continue))
}

func (e ephemerals) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return e.client.Watch(ctx, e.of(), &client.ListOptions{Raw: &o})
}

// keyOf returns the key of the resource of an EphemeralReport.
func keyOf(o client.Object) string {
	if r, _ := ephemeral.Subject(o); r.UID != "" {
		return r.UID
	}
	return o.GetNamespace() + "/" + o.GetName() // its name is derived from that of the resource
}

// see notes an EphemeralReport. It waits while those in memory take too much of it.
func (c *Consumer) see(ctx context.Context, o client.Object) {
	text, err := json.Marshal(o)
	size := int64(min(len(text)+perReport, maxMemory))
	if err != nil || c.room.Acquire(ctx, size) != nil {
		return // the list ends; an object that was read as JSON can be written as JSON
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(o)
	w := c.waiting[key]
	if w == nil {
		w = &waiting{objects: map[client.ObjectKey]client.Object{}}
		c.waiting[key] = w
	}
	w.objects[client.ObjectKeyFromObject(o)] = o
	w.bytes += size
}

// Reconcile handles the EphemeralReports of one resource. Waiting for a resource is not a failure.
func (c *Consumer) Reconcile(ctx context.Context, key string) (again time.Duration, err error) {
	c.mu.Lock()
	w := c.waiting[key]
	delete(c.waiting, key)
	if c.named == nil || time.Since(c.namedAt) > takeAfter {
		c.named, c.namedAt = &names{metadata: c.o.Metadata}, time.Now()
	}
	named := c.named
	c.mu.Unlock()
	switch {
	case key == "":
		c.again(true)
		return 0, nil
	case w == nil:
		return c.again(false), nil
	}
	defer c.room.Release(w.bytes)
	done, err := c.takeOne(ctx, w.objects, named)
	if done && err == nil {
		return 0, nil
	}
	c.leave(err != nil)
	return retryTake, err
}

// leave notes that an EphemeralReport is left, because its resource does not exist yet, or after a failure.
func (c *Consumer) leave(failure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	first := c.left.IsZero()
	if first {
		c.left = now
	}
	if !failure {
		c.wait = retryTake
		return
	}
	if now.Sub(c.failed) > 2*longestTake {
		c.retries = controller.Pause{First: retryTake, Longest: longestTake}
	}
	if c.failed = now; first {
		c.wait = c.retries.Next()
	}
}

// again lists everything again at once, or if some EphemeralReports have been left for long enough, and returns the time until then.
func (c *Consumer) again(atOnce bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !atOnce {
		if c.left.IsZero() {
			return 0
		}
		if wait := c.wait - time.Since(c.left); wait > 0 {
			return wait
		}
	}
	c.left = time.Time{}
	for _, list := range c.lists {
		list()
	}
	return 0
}

// takeOne handles the EphemeralReports of one resource. done: this process has nothing left to do for it.
func (c *Consumer) takeOne(ctx context.Context, objects map[client.ObjectKey]client.Object, named *names) (done bool, err error) {
	p, err := c.prove(ctx, objects)
	if err != nil {
		return false, err
	}
	r, first := p.resource, p.first
	gvr := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupVersion().WithResource(p.plural)
	key := r.Namespace
	if key == "" {
		key = "/" + gvr.GroupResource().String()
	}
	ctx, release, ok := c.o.Share.Hold(ctx, key)
	if !ok {
		return true, nil // it belongs to another replica; it is read again when the share changes
	}
	defer release()
	for name, why := range p.doubts {
		c.o.Doubts.Report(objects[name], why)
	}
	if len(p.doubts) == len(objects) {
		return true, c.delete(ctx, objects)
	}
	if !c.o.Writer.name(&r) {
		var there bool
		if there, err = named.find(ctx, gvr, &r, first.Add(-patience)); err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("look for the %s that results are about: %w", r.Kind, err)
		}
		switch {
		case err != nil: // the existence of the resource is unknown, and a wrong report would stay
			if _, said := c.unreadable.LoadOrStore(gvr, true); !said {
				c.o.Log.Warn("results of admission are missing in reports, since resources of the kind may not be read", "kind", r.Kind, "error", err)
			}
			return true, c.delete(ctx, objects)
		case !there && c.o.Now().Sub(first) > patience:
			return true, c.delete(ctx, objects)
		case !there:
			return false, nil
		}
	}
	wanted, kept := c.o.Wanted(gvr.GroupVersion().WithKind(r.Kind).GroupKind()), p.results[:0]
	for _, result := range p.results {
		if wanted(report.RuleOf(&result)) {
			kept = append(kept, result)
		}
	}
	if _, err := c.o.Writer.Add(ctx, &r, kept); err != nil {
		return false, fmt.Errorf("report about %s %s: %w", r.Kind, r.Name, err)
	}
	return true, c.delete(ctx, objects)
}

// proved holds the verified results of EphemeralReports about one resource.
type proved struct {
	resource report.Resource
	plural   string
	first    time.Time // when the oldest report was created
	results  []policyreport.Result
	doubts   map[client.ObjectKey]error // why other reports failed verification, by name
}

// prove separates verified EphemeralReports from others. If none is verified, it still returns the resource, because the resource decides
// which replica handles the objects.
func (c *Consumer) prove(ctx context.Context, objects map[client.ObjectKey]client.Object) (proved, error) {
	p := proved{doubts: map[client.ObjectKey]error{}}
	for name, o := range objects {
		doubt, err := ephemeral.Check(ctx, c.o.Keys, o)
		switch {
		case doubt:
			p.doubts[name] = err
			if p.first.IsZero() {
				p.resource, p.plural = ephemeral.Subject(o)
			}
			continue
		case err != nil:
			return p, fmt.Errorf("check the EphemeralReport %s: %w", o.GetName(), err)
		}
		of, plural := ephemeral.Subject(o)
		if of.Name == "" && !p.first.IsZero() {
			of.Name = p.resource.Name
		}
		p.resource, p.plural = of, plural
		if at := o.GetCreationTimestamp().Time; p.first.IsZero() || at.Before(p.first) {
			p.first = at
		}
		p.results = report.Together(p.results, c.present(contentOf(o).Results))
	}
	return p, nil
}

// present drops results with dates in the future, which come from a clock that is ahead: they would override later results.
func (c *Consumer) present(results []policyreport.Result) []policyreport.Result {
	out, now := slices.Clone(results), c.o.Now().Unix()
	for i := range out {
		out[i].Timestamp.Seconds = min(out[i].Timestamp.Seconds, now)
	}
	return out
}

// delete deletes the handled EphemeralReports, in the version that was handled.
func (c *Consumer) delete(ctx context.Context, objects map[client.ObjectKey]client.Object) error {
	for _, o := range objects {
		uid, version := o.GetUID(), o.GetResourceVersion()
		err := c.o.Client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // a newer version has its own event
			return fmt.Errorf("delete the EphemeralReport %s: %w", o.GetName(), err)
		}
	}
	return nil
}

func contentOf(o client.Object) *reportsv1.EphemeralReportSpec {
	if r, ok := o.(*reportsv1.EphemeralReport); ok {
		return &r.Spec
	}
	return &o.(*reportsv1.ClusterEphemeralReport).Spec
}
