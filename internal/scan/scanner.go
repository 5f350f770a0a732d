package scan

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/discovery"
	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/report"
	"github.com/ephor-dev/ephor/internal/world"
)

// Sink takes what was found. Its methods may be called by several goroutines, for one resource by one at a time.
type Sink interface {
	// Put makes the results those that are reported of the resource, as far as evaluated goes, and says whether that
	// changed anything.
	Put(ctx context.Context, out policy.Outcome, evaluated report.Evaluated) (changed bool, err error)
	// Prune forgets what is reported of kinds that are not scanned any longer and of rules that are gone, as far as it is
	// for this process to evaluate.
	Prune(ctx context.Context, scanned func(schema.GroupKind) bool, rules Rules, mine func(gk schema.GroupKind, namespace string) bool) error
}

// Rules reports rules whose results reports hold.
type Rules interface {
	// Live reports whether the rule exists and is reported.
	Live(report.Rule) bool
	// Elsewhere reports whether it is live, and scans do not evaluate it.
	Elsewhere(report.Rule) bool
}

// Options of a Scanner. All are required, but for those that say so.
type Options struct {
	Catalog *catalog.Catalog
	// Resources finds what policies name.
	Resources discovery.Resources
	Dynamic   dynamic.Interface
	Metadata  metadata.Interface
	Sink      Sink
	// Share says what is for this process to evaluate; nil for everything.
	Share Share

	Root world.Root
	Eval func(context.Context, engine.Input) policy.Outcome
	Conf func() policy.Conf
	// Labels gives the labels of a namespace.
	Labels func(ctx context.Context, namespace string) (map[string]string, error)
	// Skip says which resources are left alone; nil for none.
	Skip func(gvk schema.GroupVersionKind, namespace, name string) bool

	// Observer counts; nil for none.
	Observer Observer
	// Evaluated is called for every evaluation, Reported for those whose report changed; nil for none.
	Evaluated func(*policy.Outcome)
	Reported  func(*policy.Outcome)
	// Unlistable is called for a kind that cannot be scanned, with the policies that name it; nil for none.
	Unlistable func(programs []*policy.Program, kind schema.GroupVersionKind, err error)
	// Omitted is called when Omissions may have changed; nil for none.
	Omitted func()

	// Workers evaluate at once, Interval is how often all is evaluated again.
	Workers  int
	Interval time.Duration
	Log      *slog.Logger
	Now      func() time.Time
}

// The controllers' names in metrics: of what evaluates resources, and of what follows their kinds.
const (
	Name      = "background-scan-controller"
	KindsName = "resource-report-controller"
)

// Observer counts: Reconciled is called for each resource that was evaluated, and each time that it was looked for the
// kinds to follow; Requeued when that failed and is tried again.
type Observer interface {
	Reconciled(controller string)
	Requeued(controller string, failures int)
}

type unobserved struct{}

func (unobserved) Reconciled(string)    {}
func (unobserved) Requeued(string, int) {}

// How long changes are gathered: of policies, since they come in crowds, and of resources, since a new one changes a few
// times in its first moments.
const (
	policyQuiet   = time.Second
	policyLongest = 10 * time.Second
	objectQuiet   = 2 * time.Second
)

// objectsPerWorker is how many objects are on their way for each that is evaluated: most of the time is spent on
// waiting for the API server.
const objectsPerWorker = 8

// retryPlan is how soon the kinds are looked for again that could not be found out.
const retryPlan = 30 * time.Second

// Scanner keeps the evaluation of what exists current.
type Scanner struct {
	o       Options
	workers chan struct{} // one place for each evaluation that may run
	objects chan struct{} // one for each object that is read, evaluated or reported at the moment
	replan  chan struct{}
	sources *sources

	mu       sync.Mutex
	loops    map[schema.GroupResource]*loop
	revision uint64
}

// New returns a Scanner that does nothing yet.
func New(o Options) *Scanner {
	workers := max(1, o.Workers)
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	lookups := &sources{world: o.Root, log: o.Log, seen: map[source]string{}}
	o.Root = lookups.root()
	return &Scanner{o: o, sources: lookups, workers: make(chan struct{}, workers), objects: make(chan struct{}, objectsPerWorker*workers), replan: make(chan struct{}, 1), loops: map[schema.GroupResource]*loop{}}
}

// Replan looks for the kinds again: some came or went.
func (s *Scanner) Replan() {
	select {
	case s.replan <- struct{}{}:
	default:
	}
}

// Run scans until ctx is done. It may be run again, and then begins anew.
func (s *Scanner) Run(ctx context.Context) error {
	changed, cancel := s.o.Catalog.Subscribe()
	defer cancel()
	var running sync.WaitGroup
	defer func() {
		s.mu.Lock()
		for at, l := range s.loops {
			l.stop()
			delete(s.loops, at)
		}
		s.mu.Unlock()
		running.Wait()
	}()
	var again <-chan time.Time
	look := time.NewTicker(sourcesEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			s.lookSources(ctx)
			continue
		case <-again:
		case <-s.replan:
		case <-changed:
		}
		gather(ctx, changed)
		if ctx.Err() != nil {
			return nil
		}
		again = nil
		err := s.apply(ctx, &running)
		s.o.Observer.Reconciled(KindsName)
		if err != nil {
			s.o.Observer.Requeued(KindsName, 1)
			s.o.Log.Warn("some kinds are not scanned yet", "error", err)
			again = time.After(retryPlan)
		}
	}
}

// gather waits until nothing has changed for a while.
func gather(ctx context.Context, changed <-chan struct{}) {
	longest := time.After(policyLongest)
	for {
		select {
		case <-ctx.Done():
			return
		case <-longest:
			return
		case <-time.After(policyQuiet):
			return
		case <-changed:
		}
	}
}

// apply makes the loops those of the policies as they are now.
func (s *Scanner) apply(ctx context.Context, running *sync.WaitGroup) error {
	wanted, err := plan(s.o.Catalog.Snapshot(), s.o.Resources)
	s.mu.Lock()
	for at, l := range s.loops {
		if wanted[at] == nil && err == nil {
			l.stop()
			delete(s.loops, at)
			s.o.Log.Info("kind no longer scanned", "kind", at.String())
		}
	}
	for at, want := range wanted {
		l := s.loops[at]
		if l != nil && l.set.Load().resource != want.resource { // another version is served now
			l.stop()
			l = nil
		}
		if l == nil {
			l = newLoop(s)
			s.loops[at] = l
			loopCtx, stop := context.WithCancel(ctx)
			l.stop = stop
			s.revision++
			want.revision, want.changes = s.revision, []change{{revision: s.revision}}
			l.set.Store(want)
			s.o.Log.Info("kind scanned", "kind", at.String(), "policies", len(want.programs))
			running.Go(func() { l.run(loopCtx) })
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
	s.mu.Unlock()
	if s.o.Omitted != nil {
		s.o.Omitted()
	}
	if err != nil {
		return err
	}
	return s.prune(ctx, wanted)
}

// prune has reports forget what is not evaluated any longer.
func (s *Scanner) prune(ctx context.Context, wanted kinds) error {
	resources := map[schema.GroupKind]Resource{}
	for _, k := range wanted {
		resources[k.resource.GVK().GroupKind()] = k.resource
	}
	scanned := func(gk schema.GroupKind) bool { _, is := resources[gk]; return is }
	var mine func(schema.GroupKind, string) bool
	if s.o.Share != nil {
		mine = func(gk schema.GroupKind, namespace string) bool {
			if namespace != "" {
				return s.o.Share.Holds(namespace)
			}
			return s.o.Share.Holds(resources[gk].key(""))
		}
	}
	return s.o.Sink.Prune(ctx, scanned, rulesOf(s.o.Catalog.Snapshot()), mine)
}

// Again evaluates a resource again, since what is reported of it is not what was found. It does not wait.
func (s *Scanner) Again(gk schema.GroupKind, namespace, name, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		if l.set.Load().resource.GVK().GroupKind() == gk {
			l.again(pending{namespace: namespace, name: name, uid: uid})
		}
	}
}

// RescanAnnotation on a policy or a Namespace, with another value than before, asks for another scan: of what the policy is about, or
// of what the Namespace holds.
const RescanAnnotation = "ephor.dev/rescan"

// Rescan evaluates all resources of a namespace again. It does not wait.
func (s *Scanner) Rescan(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		l.again(pending{namespace: namespace})
	}
}

// NamespaceChanged evaluates the resources of a namespace again where policies look at its labels. It does not wait.
func (s *Scanner) NamespaceChanged(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		if l.set.Load().namespaceLabels {
			l.again(pending{namespace: namespace})
		}
	}
}

// unlistable reports whether the error says that the kind cannot be read at all.
func unlistable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)
}
