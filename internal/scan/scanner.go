package scan

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/world"
)

// Sink receives results. Its methods are safe for concurrent use, but concurrent calls are for different resources.
type Sink interface {
	// Put replaces the reported results of the resource, within the policies of evaluated, and returns whether anything changed.
	Put(ctx context.Context, out policy.Outcome, evaluated report.Evaluated) (changed bool, err error)
	// Prune removes results of kinds that are no longer scanned and of rules that no longer exist, within the share of this process.
	Prune(ctx context.Context, scanned func(schema.GroupKind) bool, rules Rules, mine func(gk schema.GroupKind, namespace string) bool) error
}

// Options of a Scanner. All are required, except where the comment allows nil.
type Options struct {
	Catalog *catalog.Catalog
	// Resources resolves the kinds that policies name.
	Resources discovery.Resources
	// Objects reads the scanned objects, as JSON.
	Objects  rest.Interface
	Metadata metadata.Interface
	Sink     Sink
	// Ready is closed when the Sink knows what is reported; nil if that is so at once.
	Ready <-chan struct{}
	// Share is the part of the work that this process does; nil for all of it.
	Share Share

	Root world.Root
	Eval func(context.Context, engine.Input) policy.Outcome
	Conf func() policy.Conf
	// Labels returns the labels of a namespace.
	Labels func(ctx context.Context, namespace string) (map[string]string, error)
	// Skip reports which resources are not evaluated; nil for none.
	Skip func(gvk schema.GroupVersionKind, namespace, name string) bool

	// Observer counts evaluations; nil for none.
	Observer Observer
	// Evaluated is called for every evaluation, Reported for those whose report changed; nil for none.
	Evaluated func(*policy.Outcome)
	Reported  func(*policy.Outcome)
	// Unlistable is called for a kind that cannot be scanned, with the policies that name it; nil for none.
	Unlistable func(programs []*policy.Program, kind schema.GroupVersionKind, err error)
	// Omitted is called when Omissions may have changed; nil for none.
	Omitted func()

	// Workers is the number of parallel evaluations, Interval the time between two evaluations of all objects.
	Workers  int
	Interval time.Duration
	Log      *slog.Logger
	Now      func() time.Time
}

// The names of the controllers in metrics: one evaluates resources, the other follows their kinds.
const (
	Name      = "background-scan-controller"
	KindsName = "resource-report-controller"
)

// Observer counts rounds. Reconciled is called for each evaluated resource; Requeued if that, or the discovery of the kinds, failed and will be
// retried.
type Observer interface {
	Reconciled(controller string)
	Requeued(controller string, failures int)
}

type unobserved struct{}

func (unobserved) Reconciled(string)    {}
func (unobserved) Requeued(string, int) {}

// The time during which changes are collected: of policies, since several often change together, and of resources, since a new one changes
// several times in its first moments.
const (
	policyQuiet   = time.Second
	policyLongest = 10 * time.Second
	objectQuiet   = 2 * time.Second
)

// objectsPerWorker is the number of objects in progress for each running evaluation, since most of the time is spent waiting for the API
// server.
const objectsPerWorker = 8

// longestFailed is the longest pause before an object that failed is evaluated again.
const longestFailed = 5 * time.Minute

// retryPlan is the pause before a failed discovery is repeated.
const retryPlan = 30 * time.Second

// Scanner keeps the results for existing resources current.
type Scanner struct {
	o       Options
	workers chan struct{} // one place for each evaluation that may run
	objects chan struct{} // one for each object that is being read, evaluated or reported
	served  controller.Signal
	changed controller.Signal // the keys of changed objects
	sources *sources
	running controller.Group[Resource] // the loops

	mu       sync.Mutex
	loops    map[schema.GroupResource]*loop
	revision uint64
	shared   <-chan struct{} // closed when the keys of this process may have changed

	// Only reconcile uses these fields: the last state of the policies that it saw, and since when it waits for them to settle.
	seen           *catalog.Snapshot
	first, settled time.Time
}

// New returns a Scanner, whose rows run it.
func New(o Options) *Scanner {
	workers := max(1, o.Workers)
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	if o.Share == nil {
		o.Share = ring.Alone{}
	}
	// All objects are evaluated again within an interval, and with them everything is looked up that is needed.
	lookups := &sources{world: o.Root, log: o.Log, now: o.Now, keep: 2 * max(o.Interval, time.Minute), seen: map[source]*content{}}
	o.Root = lookups.root()
	return &Scanner{o: o, sources: lookups, workers: make(chan struct{}, workers), objects: make(chan struct{}, objectsPerWorker*workers), loops: map[schema.GroupResource]*loop{}}
}

// Rows returns the rows: one decides which kinds are scanned, one looks for changes of looked-up data, one runs a loop for each kind, and one
// evaluates changed objects.
func (s *Scanner) Rows() []controller.Row {
	return []controller.Row{
		{Name: KindsName, Owner: controller.Inside(s.o.Share), Sources: []controller.Source{s.o.Catalog, &s.served, controller.Func(s.begin)}, Reconcile: controller.Singleton(s.reconcile)},
		{Name: "scan-sources", Reconcile: controller.Singleton(func(ctx context.Context) (time.Duration, error) {
			s.lookSources(ctx)
			return sourcesEvery, nil
		})},
		{Name: Name, Sources: []controller.Source{&s.running}},
		{Name: "scan-changes", Sources: []controller.Source{&s.changed}, Reconcile: s.look, Collect: objectQuiet, Workers: cap(s.objects)},
	}
}

// Replan resolves the kinds again, after some were added or removed.
func (s *Scanner) Replan() { s.served.Fire() }

// begin adds the key when the reports are known.
func (s *Scanner) begin(ctx context.Context, add func(string)) error {
	if s.o.Ready != nil {
		select {
		case <-ctx.Done():
		case <-s.o.Ready:
			add("")
		}
	}
	return nil
}

// reconcile decides which kinds are scanned, as soon as the policies have settled.
func (s *Scanner) reconcile(ctx context.Context) (time.Duration, error) {
	if s.o.Ready != nil {
		select {
		case <-s.o.Ready:
		default:
			return 0, nil // until then, no result could be compared
		}
	}
	now := s.o.Now()
	if snapshot := s.o.Catalog.Snapshot(); snapshot != s.seen {
		if s.seen, s.settled = snapshot, now; s.first.IsZero() {
			s.first = now
		}
	}
	if quiet := policyQuiet - now.Sub(s.settled); quiet > 0 && now.Sub(s.first) < policyLongest {
		return quiet, nil
	}
	s.first = time.Time{}
	if err := s.apply(ctx); err != nil {
		s.o.Observer.Requeued(KindsName, 1)
		s.o.Log.Warn("some kinds are not scanned yet", "error", err)
		return retryPlan, nil
	}
	return 0, nil
}

// apply starts and stops loops so that they match the current policies.
func (s *Scanner) apply(ctx context.Context) error {
	wanted, err := plan(s.o.Catalog.Snapshot(), s.o.Resources)
	s.mu.Lock()
	for at := range s.loops {
		if wanted[at] == nil && err == nil {
			delete(s.loops, at)
			s.o.Log.Info("kind no longer scanned", "kind", at.String())
		}
	}
	if now := s.o.Share.Changed(); now != s.shared {
		s.shared = now
		for _, l := range s.loops {
			l.poke()
		}
	}
	for at, want := range wanted {
		l := s.loops[at]
		if l == nil || l.set.Load().resource != want.resource { // another version may be served now
			l = newLoop(s)
			s.loops[at] = l
			s.revision++
			want.revision, want.changes = s.revision, []change{{revision: s.revision}}
			l.set.Store(want)
			s.o.Log.Info("kind scanned", "kind", at.String(), "policies", len(want.programs))
			continue
		}
		if want.after(l.set.Load(), s.revision+1) {
			s.revision++
			l.set.Store(want)
			l.poke()
		} else {
			l.set.Store(want)
		}
	}
	loops := map[Resource]controller.Source{}
	for _, l := range s.loops {
		loops[l.set.Load().resource] = controller.Forever(l.run)
	}
	s.running.Set(loops)
	s.mu.Unlock()
	if s.o.Omitted != nil {
		s.o.Omitted()
	}
	if err != nil {
		return err
	}
	return s.prune(ctx, wanted)
}

// prune removes results that are no longer evaluated from reports.
func (s *Scanner) prune(ctx context.Context, wanted kinds) error {
	resources := map[schema.GroupKind]Resource{}
	for _, k := range wanted {
		resources[k.resource.GVK().GroupKind()] = k.resource
	}
	unknown := func(string) bool { return false }
	if d, ok := s.o.Resources.(interface{ Unknown(group string) bool }); ok {
		unknown = d.Unknown
	}
	scanned := func(gk schema.GroupKind) bool {
		_, is := resources[gk]
		return is || unknown(gk.Group) // an aggregated API that does not answer may serve the kind
	}
	mine := func(gk schema.GroupKind, namespace string) bool { return s.o.Share.Owns(resources[gk].key(namespace)) }
	return s.o.Sink.Prune(ctx, scanned, RulesOf(s.o.Catalog.Snapshot()), mine)
}

// Scanned returns the kinds that are scanned and may be listed.
func (s *Scanner) Scanned() []schema.GroupKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []schema.GroupKind
	for _, l := range s.loops {
		if l.evaluated.Load() {
			out = append(out, l.set.Load().resource.GVK().GroupKind())
		}
	}
	return out
}

// Again requests another evaluation of a resource whose report differs from the result. It does not block.
func (s *Scanner) Again(gk schema.GroupKind, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		if l.set.Load().resource.GVK().GroupKind() == gk {
			l.again(uid)
		}
	}
}

// RescanAnnotation requests another scan when its value changes: on a policy, a scan of the resources that it matches; on a Namespace, of
// the resources in it.
const RescanAnnotation = names.Domain + "rescan"

// Rescan requests another evaluation of all resources in a namespace. It does not block.
func (s *Scanner) Rescan(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		l.againIn(namespace)
	}
}

// NamespaceChanged requests another evaluation of a namespace's resources if policies read its labels. It does not block.
func (s *Scanner) NamespaceChanged(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		if l.set.Load().namespaceLabels {
			l.againIn(namespace)
		}
	}
}

// unlistable reports whether the error means that the kind cannot be listed at all.
func unlistable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)
}
