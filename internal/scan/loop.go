package scan

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// pageSize is how many objects of a kind are in memory at once.
const pageSize = 100

// The pause after a failed round, and how long a kind that cannot be listed is left alone.
const (
	firstPause     = time.Second
	longestPause   = time.Minute
	unlistablePoll = 5 * time.Minute
)

// evalTimeout bounds the judging of one resource.
const evalTimeout = 30 * time.Second

// watchSeconds is how long one watch lasts; the API server ends it sooner when it wants to.
const watchSeconds = int64(600)

// run scans the kind until ctx is done: all of it, then what changes, and all of it again when the policies change or
// the interval is over.
func (l *loop) run(ctx context.Context) {
	pause := firstPause
	var due time.Time // of the next round in which everything is judged, changed or not
	for ctx.Err() == nil {
		all := due.IsZero() || !l.s.o.Now().Before(due)
		if all {
			due = l.s.o.Now().Add(l.s.o.Interval)
		}
		policies := l.set.Load().revision // those that come during the round make another one due
		version, err := l.sweep(ctx, all)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && unlistable(err):
			due = time.Time{}
			l.name(err)
			wait(ctx, unlistablePoll, l.wake)
			continue
		case err != nil:
			due = time.Time{}
			l.s.o.Log.Warn("scan failed, will try again", "kind", l.set.Load().resource.GVK().String(), "in", pause, "error", err)
			wait(ctx, pause, nil)
			pause = min(2*pause, longestPause)
			continue
		}
		pause, l.named = firstPause, false
		l.follow(ctx, version, policies, due)
	}
}

func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-wake:
	}
}

// name says once that the kind cannot be scanned.
func (l *loop) name(err error) {
	if l.named {
		return
	}
	l.named = true
	s := l.set.Load()
	l.s.o.Log.Warn("kind cannot be scanned", "kind", s.resource.GVK().String(), "error", err)
	if l.s.o.Unlistable != nil {
		l.s.o.Unlistable(s.programs, s.resource.GVK(), err)
	}
}

// sweep looks at all objects, page by page, and returns the version of the list.
func (l *loop) sweep(ctx context.Context, all bool) (string, error) {
	l.sweeps++
	began, version := l.set.Load(), ""
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := l.s.o.Dynamic.Resource(began.resource.GroupVersionResource).List(ctx, options)
		if err != nil {
			return "", err
		}
		if version == "" {
			version = page.GetResourceVersion()
		}
		l.each(page.Items, func(u *unstructured.Unstructured) { l.judge(ctx, u, all) })
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	maps.DeleteFunc(l.objects, func(_ string, o *object) bool { return o.sweep != l.sweeps })
	return version, nil
}

// each looks at the objects of a page, as many at once as there are places.
func (l *loop) each(items []unstructured.Unstructured, f func(*unstructured.Unstructured)) {
	var running sync.WaitGroup
	for i := range items {
		l.s.objects <- struct{}{}
		running.Go(func() {
			defer func() { <-l.s.objects }()
			f(&items[i])
		})
	}
	running.Wait()
}

// judge evaluates the policies for the object unless it was judged as it is by the same policies.
func (l *loop) judge(ctx context.Context, u *unstructured.Unstructured, always bool) {
	s, uid := l.set.Load(), string(u.GetUID())
	hash, meta := contentHash(u.Object), metaHash(u.GetResourceVersion(), u.GetGeneration(), u.GetLabels(), u.GetAnnotations())
	l.known.Lock()
	o := l.objects[uid]
	if o == nil {
		o = &object{namespace: u.GetNamespace(), name: u.GetName()}
		l.objects[uid] = o
	}
	o.meta, o.sweep = meta, l.sweeps
	current := o.revision == s.revision && o.hash == hash
	l.known.Unlock()
	if current && !always || ctx.Err() != nil {
		return
	}
	if err := l.evaluate(ctx, s, u); err != nil {
		if ctx.Err() == nil {
			l.s.o.Log.Warn("result not reported, will try again", "kind", u.GetKind(), "namespace", u.GetNamespace(), "name", u.GetName(), "error", err)
		}
		l.known.Lock()
		o.revision = 0
		l.pending[uid] = pending{u.GetNamespace(), u.GetName(), uid}
		l.known.Unlock()
		return
	}
	l.known.Lock()
	o.revision, o.hash = s.revision, hash
	l.known.Unlock()
}

func (l *loop) evaluate(ctx context.Context, s *set, u *unstructured.Unstructured) error {
	o, gvk := &l.s.o, s.resource.GVK()
	req := &policy.Request{
		Origin: policy.FromScan, Operation: policy.Create, GVK: gvk, RequestGVK: gvk, GVR: s.resource.GroupVersionResource,
		Namespace: u.GetNamespace(), Name: u.GetName(), Object: value.Of(u.Object), Conf: o.Conf(),
		ResolveNamespace: func(ctx context.Context) (map[string]string, error) { return o.Labels(ctx, u.GetNamespace()) },
	}
	out := policy.Outcome{Request: req}
	if o.Skip == nil || !o.Skip(gvk, u.GetNamespace(), u.GetName()) {
		l.s.workers <- struct{}{}
		limited, cancel := context.WithTimeout(ctx, evalTimeout)
		out = o.Eval(limited, engine.Input{
			Selections: s.selections(req), Request: req, Stages: policy.StageValidate, Root: o.Root, Now: o.Now,
		})
		cancel()
		<-l.s.workers
		if ctx.Err() != nil {
			return ctx.Err() // what was not judged any more is no result
		}
	}
	if o.Judged != nil && len(out.Results) > 0 {
		o.Judged(&out)
	}
	changed, err := o.Sink.Put(ctx, out)
	if changed && o.Told != nil {
		o.Told(&out)
	}
	return err
}

// follow watches the kind from the version on, and returns when all of it has to be looked at again: it was judged by the
// policies of that revision.
func (l *loop) follow(ctx context.Context, version string, policies uint64, due time.Time) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := l.set.Load()
	events, lost := make(chan watch.Event), make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		defer close(lost)
		l.watch(ctx, s, version, events)
	})
	interval := time.NewTimer(max(0, due.Sub(l.s.o.Now())))
	defer interval.Stop()
	var flush <-chan time.Time
	wait := objectQuiet
	for {
		if l.set.Load().revision != policies {
			return // the policies changed
		}
		if flush == nil && l.waiting() {
			flush = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-lost:
			return
		case <-interval.C:
			return
		case <-l.wake:
			l.order()
		case e := <-events:
			l.event(e)
		case <-flush:
			flush = nil
			failed := l.look(ctx)
			wait = objectQuiet
			if failed {
				wait = 5 * objectQuiet
			}
		}
	}
}

func (l *loop) waiting() bool {
	l.known.Lock()
	defer l.known.Unlock()
	return len(l.pending) > 0
}

// order takes over what others want to be judged again.
func (l *loop) order() {
	l.known.Lock()
	defer l.known.Unlock()
	for _, p := range l.taken() {
		if p.name != "" {
			if o := l.objects[p.uid]; o != nil {
				o.revision = 0
				l.pending[p.uid] = p
			}
			continue
		}
		for uid, o := range l.objects {
			if o.namespace == p.namespace {
				o.revision = 0
				l.pending[uid] = pending{o.namespace, o.name, uid}
			}
		}
	}
}

// event takes in what the watch tells.
func (l *loop) event(e watch.Event) {
	m, ok := e.Object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	l.known.Lock()
	defer l.known.Unlock()
	uid := string(m.UID)
	if e.Type == watch.Deleted {
		delete(l.objects, uid)
		delete(l.pending, uid)
		return
	}
	o := l.objects[uid]
	if o != nil && o.meta == metaHash(m.ResourceVersion, m.Generation, m.Labels, m.Annotations) {
		return
	}
	l.pending[uid] = pending{m.Namespace, m.Name, uid}
}

// look judges what is pending, and says whether some of it failed.
func (l *loop) look(ctx context.Context) (failed bool) {
	l.known.Lock()
	todo := slices.Collect(maps.Values(l.pending))
	clear(l.pending)
	l.known.Unlock()
	client := l.s.o.Dynamic.Resource(l.set.Load().resource.GroupVersionResource)
	var running sync.WaitGroup
	for _, p := range todo {
		l.s.objects <- struct{}{}
		running.Go(func() {
			defer func() { <-l.s.objects }()
			if ctx.Err() != nil {
				return
			}
			var u *unstructured.Unstructured
			var err error
			if p.namespace != "" {
				u, err = client.Namespace(p.namespace).Get(ctx, p.name, metav1.GetOptions{})
			} else {
				u, err = client.Get(ctx, p.name, metav1.GetOptions{})
			}
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				l.known.Lock()
				l.pending[p.uid] = p
				l.known.Unlock()
			default:
				l.judge(ctx, u, false)
			}
		})
	}
	running.Wait()
	return l.waiting()
}

// watch sends what changes until ctx is done, or until the versions are gone from which one could go on.
func (l *loop) watch(ctx context.Context, s *set, version string, events chan<- watch.Event) {
	client := l.s.o.Metadata.Resource(s.resource.GroupVersionResource)
	pause := firstPause
	for ctx.Err() == nil {
		seconds := watchSeconds
		w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
		if err == nil {
			version, err = relay(ctx, w, version, events)
		}
		switch {
		case err == nil:
			pause = firstPause
			continue
		case apierrors.IsGone(err) || apierrors.IsResourceExpired(err) || unlistable(err):
			return
		}
		wait(ctx, pause, nil)
		pause = min(2*pause, longestPause)
	}
}

// relay passes the events of one watch on and returns the version to go on from.
func relay(ctx context.Context, w watch.Interface, version string, events chan<- watch.Event) (string, error) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case e, open := <-w.ResultChan():
			if !open {
				return version, nil
			}
			switch e.Type {
			case watch.Error:
				return version, apierrors.FromObject(e.Object)
			case watch.Bookmark, watch.Added, watch.Modified, watch.Deleted:
				m, ok := e.Object.(*metav1.PartialObjectMetadata)
				if !ok {
					return version, errors.New("the watch sends something else")
				}
				version = m.ResourceVersion
				if e.Type == watch.Bookmark {
					continue
				}
				select {
				case <-ctx.Done():
					return version, nil
				case events <- e:
				}
			}
		}
	}
}

// seed makes the hashes of this process.
var seed = maphash.MakeSeed()

// contentHash stands for what the policies look at (control plane reference §6.2): labels, annotations and everything
// but metadata and status.
func contentHash(o map[string]any) uint64 {
	content := make(map[string]any, len(o)+2)
	for k, v := range o {
		if k != "metadata" && k != "status" {
			content[k] = v
		}
	}
	meta, _ := o["metadata"].(map[string]any)
	content["\x00labels"], content["\x00annotations"] = meta["labels"], meta["annotations"]
	return maphash.Bytes(seed, value.AppendJSON(make([]byte, 0, 4096), content))
}

// metaHash stands for what a watch of metadata shows of the content: the generation, which the API server raises with the
// spec, or for kinds that have none the version, which every write raises.
func metaHash(version string, generation int64, labels, annotations map[string]string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	if generation > 0 {
		version = "g" + strconv.FormatInt(generation, 10)
	}
	text := func(t string) { _, _ = h.WriteString(strconv.Itoa(len(t)) + ":" + t) }
	text(version)
	for _, m := range []map[string]string{labels, annotations} {
		text(strconv.Itoa(len(m)))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			text(k)
			text(m[k])
		}
	}
	return h.Sum64()
}
