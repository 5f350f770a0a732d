package reports

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	// Share decides which resources this process handles; nil for all.
	Share Share
	// Workers is the number of resources that are handled at the same time.
	Workers int
	// Observer counts the resources whose results were merged; nil for none.
	Observer ConsumerObserver
	Log      *slog.Logger
	Now      func() time.Time
}

// ConsumerName is the controller's name in metrics.
const ConsumerName = "aggregate-report-controller"

// ConsumerObserver counts: Reconciled is called for each resource, Requeued for each failure. Waiting for a resource is not a failure.
type ConsumerObserver interface {
	Reconciled(controller string)
	Requeued(controller string, failures int)
}

type unobserved struct{}

func (unobserved) Reconciled(string)    {}
func (unobserved) Requeued(string, int) {}

// Share decides which part of the work this process does. Keys are namespaces; for cluster-wide resources, a slash and the resource name.
type Share interface {
	Hold(parent context.Context, key string) (ctx context.Context, release func(), ok bool)
	Changed() <-chan struct{}
}

// Consumer merges EphemeralReports into the reports, and deletes them. It ignores those without a seal of our controllers, because users
// may write them.
type Consumer struct {
	o      ConsumerOptions
	places chan struct{} // one for each resource that is being handled

	unreadable sync.Map // kinds for which a line was logged
}

// NewConsumer returns a Consumer that does nothing yet.
func NewConsumer(o ConsumerOptions) *Consumer {
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	return &Consumer{o: o, places: make(chan struct{}, max(1, o.Workers))}
}

const (
	// takePage is the number of EphemeralReports that are in memory at the same time.
	takePage = 100
	// takeAfter is how long the first event of a resource waits for further events.
	takeAfter = 300 * time.Millisecond
	// retryTake is the pause before a retry for EphemeralReports that could not be merged, for example because their resource does not
	// exist yet.
	retryTake = 10 * time.Second
	// patience is the maximum age of an EphemeralReport whose resource does not exist: the resource's creation was probably denied.
	patience = 2 * time.Minute
)

// The pause after a failed round.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// Sources follow the two kinds of EphemeralReports and merge their results, once the Writer knows the reports.
func (c *Consumer) Sources() []controller.Source {
	var out []controller.Source
	for _, of := range []func() client.ObjectList{
		func() client.ObjectList { return &reportsv1.EphemeralReportList{} },
		func() client.ObjectList { return &reportsv1.ClusterEphemeralReportList{} },
	} {
		out = append(out, controller.Forever(func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-c.o.Writer.Ready():
				c.follow(ctx, of)
			}
		}))
	}
	return out
}

// follow lists and watches one kind.
func (c *Consumer) follow(ctx context.Context, of func() client.ObjectList) {
	pause := controller.Pause{First: firstPause, Longest: longestPause}
	for ctx.Err() == nil {
		var changed <-chan struct{}
		if c.o.Share != nil {
			changed = c.o.Share.Changed()
		}
		version, left, err := c.list(ctx, of)
		if err == nil {
			err = c.watch(ctx, of(), version, left, changed, &pause)
		}
		if err != nil && ctx.Err() == nil {
			wait := pause.Next()
			c.o.Log.Warn("cannot follow results of admission, will try again", "in", wait, "error", err)
			controller.Sleep(ctx, wait)
		}
	}
}

// list handles all existing EphemeralReports, page by page, and reports whether some are left.
func (c *Consumer) list(ctx context.Context, of func() client.ObjectList) (version string, left bool, err error) {
	read := func(ctx context.Context, o metav1.ListOptions) (client.ObjectList, error) { // all of them, since those of other authors are deleted
		page := of()
		return page, c.o.Client.List(ctx, page, client.Limit(o.Limit), client.Continue(o.Continue))
	}
	version, err = controller.Pages(ctx, metav1.ListOptions{Limit: takePage}, read, func(page client.ObjectList) error {
		b := batch{}
		err := meta.EachListItem(page, func(item runtime.Object) error { b.add(item.(client.Object)); return nil })
		left = c.take(ctx, b) || left
		return err
	})
	if err != nil {
		err = fmt.Errorf("list EphemeralReports: %w", err)
	}
	return version, left, err
}

// watch handles events until everything must be listed again: because some EphemeralReports are left, the share has changed, or the watched
// version has expired.
func (c *Consumer) watch(ctx context.Context, kind client.ObjectList, version string, left bool, changed <-chan struct{}, pause *controller.Pause) error {
	ctx, stop := context.WithCancel(ctx)
	events, ended := make(chan client.Object), make(chan error, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() {
		open := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.o.Client.Watch(ctx, kind, &client.ListOptions{Raw: &o})
		}
		_, err := controller.Watch(ctx, metav1.ListOptions{ResourceVersion: version}, open, pause, func(e watch.Event) error {
			if e.Type != watch.Deleted {
				select {
				case <-ctx.Done():
				case events <- e.Object.(client.Object):
				}
			}
			return nil
		})
		ended <- err
	})
	b := batch{}
	var ready, again <-chan time.Time
	flush := func() {
		if c.take(ctx, b) {
			left = true
		}
		b, ready = batch{}, nil
	}
	for {
		if left && again == nil {
			again = time.After(retryTake)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			return nil
		case <-again:
			return nil
		case err := <-ended:
			if err != nil {
				err = fmt.Errorf("watch EphemeralReports: %w", err)
			}
			return err
		case <-ready:
			flush()
		case o := <-events:
			b.add(o)
			if ready == nil {
				ready = time.After(takeAfter)
			}
			if len(b) >= takePage {
				flush()
			}
		}
	}
}

// batch holds EphemeralReports by their resource, each in its latest version.
type batch map[string]map[string]client.Object

func (b batch) add(o client.Object) {
	r, _ := ephemeral.Subject(o)
	at := r.UID
	if at == "" {
		at = o.GetNamespace() + "/" + o.GetName() // its name is derived from that of the resource
	}
	if b[at] == nil {
		b[at] = map[string]client.Object{}
	}
	b[at][o.GetName()] = o
}

// take handles a batch, and reports whether some of it is left.
func (c *Consumer) take(ctx context.Context, b batch) (left bool) {
	var running sync.WaitGroup
	var mu sync.Mutex
	named := &names{metadata: c.o.Metadata}
	for _, objects := range b {
		c.places <- struct{}{}
		running.Go(func() {
			defer func() { <-c.places }()
			done, err := c.takeOne(ctx, objects, named)
			c.o.Observer.Reconciled(ConsumerName)
			if err != nil && ctx.Err() == nil {
				c.o.Observer.Requeued(ConsumerName, 1)
				c.o.Log.Warn("results were not merged into a report, will try again", "error", err)
			}
			mu.Lock()
			defer mu.Unlock()
			left = left || !done
		})
	}
	running.Wait()
	return left
}

// takeOne handles the EphemeralReports of one resource. done: this process has nothing left to do for it.
func (c *Consumer) takeOne(ctx context.Context, objects map[string]client.Object, named *names) (done bool, err error) {
	p, err := c.prove(ctx, objects)
	if err != nil {
		return false, err
	}
	r, first := p.resource, p.first
	gvr := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupVersion().WithResource(p.plural)
	if c.o.Share != nil {
		key := r.Namespace
		if key == "" {
			key = "/" + gvr.GroupResource().String()
		}
		held, release, ok := c.o.Share.Hold(ctx, key)
		if !ok {
			return true, nil // it belongs to another replica; it is read again when the share changes
		}
		defer release()
		ctx = held
	}
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
	doubts   map[string]error // why other reports failed verification, by name
}

// prove separates verified EphemeralReports from others. If none is verified, it still returns the resource, because the resource decides
// which replica handles the objects.
func (c *Consumer) prove(ctx context.Context, objects map[string]client.Object) (proved, error) {
	p := proved{doubts: map[string]error{}}
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
func (c *Consumer) delete(ctx context.Context, objects map[string]client.Object) error {
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
