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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyreport "github.com/ephor-dev/ephor/api/policyreport/v1alpha2"
	reportsv1 "github.com/ephor-dev/ephor/api/reports/v1"
	"github.com/ephor-dev/ephor/internal/ephemeral"
	"github.com/ephor-dev/ephor/internal/report"
)

// ConsumerOptions of a Consumer. All are required, but for those that say so.
type ConsumerOptions struct {
	Writer *Writer
	// Client lists, watches and deletes EphemeralReports; its scheme knows reports.kyverno.io/v1.
	Client client.WithWatch
	// Metadata looks for the resources that results are about.
	Metadata metadata.Interface
	// Wanted gives for a kind which rules' results are taken: those that exist, are reported, and that
	// scans of the kind do not evaluate, whose results are the only ones of their rules.
	Wanted func(schema.GroupKind) func(report.Rule) bool
	// Keys are those that the controllers seal EphemeralReports with; other reports are deleted without effect, and Doubts is called.
	Keys   ephemeral.Keys
	Doubts *ephemeral.Doubts
	// Share says which are for this process; nil for all.
	Share Share
	// Workers is how many resources are worked on at once.
	Workers int
	// Observer counts the resources whose results were taken; nil for none.
	Observer ConsumerObserver
	Log      *slog.Logger
	Now      func() time.Time
}

// ConsumerName is the controller's name in metrics.
const ConsumerName = "aggregate-report-controller"

// ConsumerObserver counts: Reconciled is called for each resource, Requeued for one that failed. To
// wait for what results are about is no failure.
type ConsumerObserver interface {
	Reconciled(controller string)
	Requeued(controller string, failures int)
}

type unobserved struct{}

func (unobserved) Reconciled(string)    {}
func (unobserved) Requeued(string, int) {}

// Share says what is for this process, where several share the work: keys are namespaces, and for what lies outside of them
// a slash and the kind's name in paths.
type Share interface {
	Hold(parent context.Context, key string) (ctx context.Context, release func(), ok bool)
	Changed() <-chan struct{}
}

// Consumer takes EphemeralReports into the reports, and deletes them. Those that no controller of ours wrote as they are count for
// nothing: users may write them.
type Consumer struct {
	o      ConsumerOptions
	places chan struct{} // one for each resource that is worked on

	unreadable sync.Map // kinds that a line of the log was written about
}

// NewConsumer returns a Consumer that does nothing yet.
func NewConsumer(o ConsumerOptions) *Consumer {
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	return &Consumer{o: o, places: make(chan struct{}, max(1, o.Workers))}
}

const (
	// takePage is how many EphemeralReports are in memory at once.
	takePage = 100
	// takeAfter is how long the first news waits for more of the same resource.
	takeAfter = 300 * time.Millisecond
	// retryTake is how soon those are looked at again that could not be taken, because their resource is not there yet
	// for instance.
	retryTake = 10 * time.Second
	// patience is how old an EphemeralReport may get whose resource does not come to be: its creation was refused after all.
	patience = 2 * time.Minute
)

// Run takes results until ctx is done. The Writer has to know the reports.
func (c *Consumer) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, of := range []func() client.ObjectList{
		func() client.ObjectList { return &reportsv1.EphemeralReportList{} },
		func() client.ObjectList { return &reportsv1.ClusterEphemeralReportList{} },
	} {
		running.Go(func() { c.follow(ctx, of) })
	}
	running.Wait()
}

// follow lists and watches one kind.
func (c *Consumer) follow(ctx context.Context, of func() client.ObjectList) {
	pause := firstPause
	for ctx.Err() == nil {
		var changed <-chan struct{}
		if c.o.Share != nil {
			changed = c.o.Share.Changed()
		}
		version, left, err := c.list(ctx, of)
		if err == nil {
			pause = firstPause
			err = c.watch(ctx, of(), version, left, changed)
		}
		if ctx.Err() != nil || err == nil {
			continue
		}
		c.o.Log.Warn("results of admission cannot be followed, will try again", "in", pause, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// list takes all that exist, page by page, and says whether some are left.
func (c *Consumer) list(ctx context.Context, of func() client.ObjectList) (version string, left bool, err error) {
	options := []client.ListOption{client.Limit(takePage)} // all of them: those of others are deleted
	next := ""
	for {
		page := of()
		if err := c.o.Client.List(ctx, page, append(options, client.Continue(next))...); err != nil {
			return "", false, fmt.Errorf("list EphemeralReports: %w", err)
		}
		if version == "" {
			version = page.GetResourceVersion()
		}
		items, err := meta.ExtractList(page)
		if err != nil {
			return "", false, err
		}
		b := batch{}
		for _, item := range items {
			b.add(item.(client.Object))
		}
		left = c.take(ctx, b) || left
		if next = page.GetContinue(); next == "" {
			return version, left, nil
		}
	}
}

// watch takes what comes, until all has to be listed again: because some are left, because others are for this process, or
// because the versions are gone from which one could go on.
func (c *Consumer) watch(ctx context.Context, kind client.ObjectList, version string, left bool, changed <-chan struct{}) error {
	seconds := watchSeconds
	stream, err := c.o.Client.Watch(ctx, kind, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds}})
	if err != nil {
		if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
			return nil
		}
		return fmt.Errorf("watch EphemeralReports: %w", err)
	}
	defer stream.Stop()
	b := batch{}
	var ready, again <-chan time.Time
	leave := func() {
		if again == nil {
			again = time.After(retryTake)
		}
	}
	if left {
		leave()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			return nil
		case <-again:
			return nil
		case <-ready:
			if c.take(ctx, b) {
				leave()
			}
			b, ready = batch{}, nil
		case e, open := <-stream.ResultChan():
			if !open {
				return nil
			}
			switch e.Type {
			case watch.Error:
				if err := apierrors.FromObject(e.Object); !apierrors.IsGone(err) && !apierrors.IsResourceExpired(err) {
					return fmt.Errorf("watch EphemeralReports: %w", err)
				}
				return nil
			case watch.Added, watch.Modified:
				b.add(e.Object.(client.Object))
				if ready == nil {
					ready = time.After(takeAfter)
				}
				if len(b) >= takePage {
					if c.take(ctx, b) {
						leave()
					}
					b, ready = batch{}, nil
				}
			}
		}
	}
}

// batch are EphemeralReports by the resource that they are about, each in its last version.
type batch map[string]map[string]client.Object

func (b batch) add(o client.Object) {
	r, _ := ephemeral.Subject(o)
	at := r.UID
	if at == "" {
		at = o.GetNamespace() + "/" + o.GetName() // which follows from that of the resource
	}
	if b[at] == nil {
		b[at] = map[string]client.Object{}
	}
	b[at][o.GetName()] = o
}

// take takes a batch, and says whether something of it is left.
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
				c.o.Log.Warn("results were not taken into a report, will try again", "error", err)
			}
			mu.Lock()
			defer mu.Unlock()
			left = left || !done
		})
	}
	running.Wait()
	return left
}

// takeOne takes what there is about one resource; done means that nothing of it is left to do for this process.
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
			return true, nil // another replica's; a change of the share reads it again
		}
		defer release()
		ctx = held
	}
	for name, why := range p.doubts {
		c.o.Doubts.Tell(objects[name], why)
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
		case err != nil: // its existence is unknown, and a wrong report would stay
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

// proved is what EphemeralReports about one resource say, as far as it is believed.
type proved struct {
	resource report.Resource
	plural   string
	first    time.Time // when the oldest was created
	results  []policyreport.Result
	doubts   map[string]error // why others are not believed, by name
}

// prove tells what is believed from what is not. Where nothing is, the resource is the one that is named all the same: it says
// whose share the objects are.
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

// present are the results without dates in the future, which a clock that is ahead gives: they would count as the later
// ones until then.
func (c *Consumer) present(results []policyreport.Result) []policyreport.Result {
	out, now := slices.Clone(results), c.o.Now().Unix()
	for i := range out {
		out[i].Timestamp.Seconds = min(out[i].Timestamp.Seconds, now)
	}
	return out
}

// delete deletes what was taken, in the version that was taken.
func (c *Consumer) delete(ctx context.Context, objects map[string]client.Object) error {
	for _, o := range objects {
		uid, version := o.GetUID(), o.GetResourceVersion()
		err := c.o.Client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // a newer version comes as news
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
