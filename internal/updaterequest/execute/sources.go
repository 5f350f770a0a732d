package execute

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/lock"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
	"ephor.invalid/ephor/internal/world"
)

// The handler for a change of a source misses a copy that is written at the same moment, and the copy would stay outdated. Therefore the
// worker checks the source once more after it has written the copy (sourceReads.outdated). Because of that check, a copy may be made from
// a read that is some seconds old. With many copies, both add next to no cost for each copy.

const (
	// sourceFor is how long a read of a source may be used for further copies.
	sourceFor = 2 * time.Second
	// maxSources is the maximum number of cached sources.
	maxSources = 16
	// versionTime limits the time for the check of a copied source.
	versionTime = 10 * time.Second
)

// sources caches the objects that synchronizing rules copy. Its methods are safe for concurrent use.
type sources struct {
	client client.Reader
	now    func() time.Time

	mu    sync.Mutex
	known map[policy.Source]*knownSource // the keys have no UIDs
	looks map[policy.Source]*looks
}

// knownSource is a source as last read. object is nil if only its label is known.
type knownSource struct {
	object map[string]any
	until  time.Time
}

// looks are the checks of one source, which run one at a time. Calls during a check share the next check.
type looks struct {
	reading lock.Lock
	next    *look
	left    int // the number of checks that have not ended
}

// look is one check of a source. done is closed at its end.
type look struct {
	done    chan struct{}
	version string
	err     error
}

func newSources(c client.Reader, now func() time.Time) *sources {
	return &sources{client: c, now: now, known: map[policy.Source]*knownSource{}, looks: map[policy.Source]*looks{}}
}

// get returns a recently read source.
func (s *sources) get(key policy.Source) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.known[key]; k != nil && s.now().Before(k.until) {
		return k.object
	}
	return nil
}

// remember caches a source that was read.
func (s *sources) remember(key policy.Source, object map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] == nil && len(s.known) >= maxSources {
		clear(s.known)
	}
	s.known[key] = &knownSource{object, s.now().Add(sourceFor)}
}

func (s *sources) forget(key policy.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}

// version returns the resourceVersion of a source, from a read that started after the call. The first of the callers that share a check runs
// it; the others wait for it no longer than their contexts allow.
func (s *sources) version(ctx context.Context, key policy.Source) (string, error) {
	l, mine, first := s.join(key)
	if first {
		s.look(context.WithoutCancel(ctx), key, l, mine) // it does not end with the context of one caller
		return mine.version, mine.err
	}
	select {
	case <-mine.done:
		return mine.version, mine.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// join returns the next check of a source, and whether the caller is the first one, who must run it. It starts when the running check ends.
func (s *sources) join(key policy.Source) (l *looks, next *look, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.looks[key]
	if l == nil {
		l = &looks{}
		s.looks[key] = l
	}
	if first = l.next == nil; first {
		l.next = &look{done: make(chan struct{})}
		l.left++
	}
	return l, l.next, first
}

// look reads the version for all callers that share the check.
func (s *sources) look(ctx context.Context, key policy.Source, l *looks, mine *look) {
	defer close(mine.done)
	unlock, err := l.reading.Lock(ctx) // each check has its own time
	if err == nil {
		defer unlock()
	}
	s.mu.Lock()
	l.next = nil // later calls wait for the next check
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(key.APIVersion, key.Kind))
	mine.err = s.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, o)
	mine.version = o.ResourceVersion
	s.mu.Lock()
	if l.left--; l.left == 0 {
		delete(s.looks, key)
	}
	s.mu.Unlock()
}

// sourceReads is the world.Root of one evaluation of a synchronizing rule. It records which sources are read.
type sourceReads struct {
	root    world.Root
	sources *sources
	older   bool // a recent read may be used
	// followed is the source whose change caused the work, without UID. If it changes again, that change updates all existing copies.
	followed policy.Source
	content  map[string]any

	mu   sync.Mutex
	read map[policy.Source]map[string]any // the sources that were read; without content if they were listed
}

// sourceReads returns the reads of a task. A rule that does more than copy may read sources for other reasons, so it reads their current
// state.
func (x *Planner) sourceReads(t *task) *sourceReads {
	r := &sourceReads{root: x.root, sources: x.sources, older: origin.CopiesAll(t.rule), read: map[policy.Source]map[string]any{}}
	if o := t.follows; o != nil {
		r.followed = policy.Source{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
		r.content = o.Object
	}
	return r
}

// For implements world.Root.
func (r *sourceReads) For(reach world.Reach) world.World {
	return r.root.For(reach).Through(func(ctx context.Context, c world.Call, next world.Next) (any, error) {
		switch q := c.Request.(type) {
		case world.ObjectRequest:
			return r.object(ctx, q, next, reach)
		case world.Query:
			return r.list(ctx, q, next)
		}
		return next(ctx, c.Request)
	}, nil)
}

func (r *sourceReads) record(key policy.Source, object map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read[key] = object
}

// object reads an object. It caches only copied sources, and always reads the current state of all other objects.
func (r *sourceReads) object(ctx context.Context, q world.ObjectRequest, next world.Next, reach world.Reach) (map[string]any, error) {
	key := policy.Source{APIVersion: q.APIVersion, Kind: q.Kind.Kind, Namespace: q.Namespace, Name: q.Name}
	if r.content != nil && key == r.followed && reach.Allows(q.Namespace) {
		return r.content, nil
	}
	if r.older && reach.Allows(q.Namespace) {
		if object := r.sources.get(key); object != nil {
			r.record(key, object)
			return object, nil
		}
	}
	object, err := world.AnswerOf[map[string]any](next(ctx, q))
	if err == nil {
		r.record(key, object)
	}
	return object, err
}

// list reads a list of objects.
func (r *sourceReads) list(ctx context.Context, q world.Query, next world.Next) ([]map[string]any, error) {
	objects, err := world.AnswerOf[[]map[string]any](next(ctx, q))
	for _, o := range objects {
		metadata, _ := o["metadata"].(map[string]any)
		text := func(field string) string { v, _ := metadata[field].(string); return v }
		key := policy.Source{APIVersion: q.APIVersion, Kind: q.Kind, Namespace: text("namespace"), Name: text("name")}
		r.record(key, map[string]any{"metadata": map[string]any{"resourceVersion": text("resourceVersion")}})
	}
	return objects, err
}

// version returns the version of a source when it was read, or an empty text if it was not read.
func (r *sourceReads) version(key policy.Source) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	metadata, _ := r.read[key]["metadata"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	return version
}

// written records our own change of a source, which does not make its copies outdated.
func (r *sourceReads) written(source policy.Source, before, after string) {
	source.UID = ""
	if r != nil && r.version(source) == before {
		r.record(source, map[string]any{"metadata": map[string]any{"resourceVersion": after}})
	}
}

// sourceGoneError is the error for a source that was deleted while it was copied.
type sourceGoneError struct{ source policy.Source }

func (e sourceGoneError) Error() string {
	return fmt.Sprintf("the source %s %s/%s with uid %s is deleted", e.source.Kind, e.source.Namespace, e.source.Name, e.source.UID)
}

// copies returns the copies of a source that belong to the trigger.
func (x *Planner) copies(ctx context.Context, t *task, of policy.Source) ([]origin.Object, error) {
	found, err := x.made.Of(ctx, t.program, t.rule, origin.Which{Trigger: t.Trigger, Source: types.UID(of.UID)})
	found.Filter(func(c mark.Claim) bool {
		return origin.IsFor(c, t.program.Identity(), t.rule.Name, t.Trigger) && c.Source != "" && c.Source == of.UID
	})
	return found.Proved, err
}

// outdated reports whether a source has changed since it was read. If a source was deleted, err is a sourceGoneError.
func (r *sourceReads) outdated(ctx context.Context, copied []policy.Source) (changed bool, err error) {
	for _, from := range copied {
		source := from
		source.UID = ""
		before := r.version(source)
		if before == "" || source == r.followed {
			continue // the source was not read here, or its next change will be handled
		}
		now, err := r.sources.version(ctx, source)
		switch {
		case updaterequest.Missing(err):
			r.sources.forget(source)
			return false, sourceGoneError{from}
		case err != nil:
			return false, wrap(err, "check the source "+source.Namespace+"/"+source.Name)
		case now != before:
			r.sources.forget(source)
			changed = true
			continue
		}
		r.mu.Lock()
		object := r.read[source]
		r.mu.Unlock()
		if object["kind"] != nil { // the object was read with its content
			r.sources.remember(source, object)
		}
	}
	return changed, nil
}
