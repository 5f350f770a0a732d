package scan

import (
	"context"
	"hash/maphash"
	"log/slog"
	"reflect"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// sourcesEvery is the time between two checks whether looked-up data have changed.
const sourcesEvery = 30 * time.Second

// sourcesTimeout bounds one check of all sources.
const sourcesTimeout = 20 * time.Second

// maxSources bounds the number of sources that are checked; changes of other sources are noticed at the next interval.
const maxSources = 500

// sources are the data that policies looked up during evaluation: ConfigMaps and other objects, and data of GlobalContextEntries. Calls of
// APIs and services are not included, since their changes are not announced.
type sources struct {
	world world.Root
	log   *slog.Logger
	now   func() time.Time
	keep  time.Duration // since the last lookup

	mu   sync.Mutex
	seen map[source]*content
	full bool
}

// content is the version of an object, or a digest of data, and when a policy last looked it up.
type content struct {
	version string
	used    time.Time
	// from identifies the data of which version is the digest; 0 if it is not known.
	from uintptr
	// doubted: a policy looked up another version since the last check.
	doubted bool
}

// source is an object, or with only a name the data of a GlobalContextEntry.
type source struct{ apiVersion, kind, namespace, name string }

// root returns the world in which policies are evaluated; it records lookups.
func (s *sources) root() world.Root {
	return world.Through(s.world, func(ctx context.Context, c world.Call, next world.Next) (any, error) {
		found, err := next(ctx, c.Request)
		switch r := c.Request.(type) {
		case world.ObjectRequest:
			s.record(source{r.APIVersion, r.Kind.Kind, r.Namespace, r.Name}, 0, func() (string, bool) {
				return versionOf(world.AnswerOf[map[string]any](found, err))
			})
		case world.GlobalRequest:
			s.record(source{name: string(r)}, identityOf(found, err), func() (string, bool) { return digestOf(found, err), true })
		}
		return found, err
	})
}

// record adds a source at its first lookup, and notes a lookup of another version: data may change, and change back, between two checks. from
// identifies the data; their version is only computed for other data than at the last lookup.
func (s *sources) record(at source, from uintptr, version func() (string, bool)) {
	s.mu.Lock()
	c := s.seen[at]
	switch {
	case c != nil:
		if c.used = s.now(); from != 0 && c.from == from {
			s.mu.Unlock()
			return
		}
	case s.full:
		s.mu.Unlock()
		return
	case len(s.seen) >= maxSources:
		s.full = true
		s.mu.Unlock()
		s.log.Warn("policies look up more objects than are checked for changes: changes of the others are seen at the next interval", "most", maxSources)
		return
	}
	s.mu.Unlock()
	v, known := version() // it may take long, and other lookups need not wait for it
	if !known {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c = s.seen[at]; c == nil {
		s.seen[at] = &content{version: v, used: s.now(), from: from}
		return
	}
	c.doubted = c.doubted || c.version != v
	c.from = from
}

// identityOf returns a number that differs for different data that exist at the same time; 0 if it is not known.
func identityOf(data any, err error) uintptr {
	switch v := reflect.ValueOf(data); {
	case err != nil:
	case v.Kind() == reflect.Map, v.Kind() == reflect.Slice && v.Len() > 0:
		return v.Pointer()
	}
	return 0
}

// changed checks all sources and reports whether the content of one changed.
func (s *sources) changed(ctx context.Context) bool {
	s.mu.Lock()
	all := make([]source, 0, len(s.seen))
	for at, c := range s.seen {
		if s.now().Sub(c.used) > s.keep {
			delete(s.seen, at) // no policy looks it up any more
			s.full = false
			continue
		}
		all = append(all, at)
	}
	s.mu.Unlock()
	if len(all) == 0 {
		return false
	}
	w := s.world.For(world.Cluster())
	found := false
	for _, at := range all {
		now, known := "", false
		if at.kind == "" {
			data, err := w.Globals(ctx, world.GlobalRequest(at.name))
			now, known = digestOf(data, err), true
		} else {
			now, known = versionOf(w.Objects.Get(ctx, at.apiVersion, at.kind, at.namespace, at.name))
		}
		if ctx.Err() != nil {
			return found
		}
		s.mu.Lock()
		if c := s.seen[at]; known && c != nil && (c.doubted || c.version != now) {
			c.version, c.doubted, c.from, found = now, false, 0, true
		}
		s.mu.Unlock()
	}
	return found
}

// versionOf returns the version of an object; a missing object has a version, too. known is false if the object could not be read.
func versionOf(o map[string]any, err error) (version string, known bool) {
	if apierrors.IsNotFound(err) {
		return "absent", true
	}
	meta, _ := o["metadata"].(map[string]any)
	version, _ = meta["resourceVersion"].(string)
	return version, err == nil
}

// digestOf returns a digest of the data, or of the error if there are none.
func digestOf(data any, err error) string {
	var h maphash.Hash
	h.SetSeed(seed)
	if err != nil {
		_, _ = h.WriteString(err.Error())
	} else {
		_, _ = h.Write(value.AppendJSON(nil, data))
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// lookSources requests another evaluation of policies whose looked-up objects have changed.
func (s *Scanner) lookSources(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, sourcesTimeout)
	defer cancel()
	if !s.sources.changed(limited) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		old := l.set.Load()
		policies := map[report.ID]bool{}
		for _, p := range old.programs {
			for _, r := range p.Rules {
				if ephemeral.Scannable(p, r) && r.Needs.Lookups {
					policies[report.IDOf(p)] = true
				}
			}
		}
		if len(policies) == 0 {
			continue
		}
		s.revision++
		l.set.Store(old.changed(s.revision, policies))
		l.poke()
		s.o.Log.Info("objects that policies look up have changed", "kind", old.resource.GVK().String(), "policies", len(policies))
	}
}
