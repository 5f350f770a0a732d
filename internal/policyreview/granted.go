package policyreview

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"ephor.invalid/ephor/internal/world"
)

// granted caches positive answers about rights for some seconds, so that installing a thousand policies does not send the same requests
// a thousand times. A withdrawn right stays valid for that long, as with an authorization webhook of the API server. Negative answers
// are never cached, since reviews wait for rights that are granted together with a policy.
type granted struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// Bounds of the cache.
const (
	grantedFor    = 5 * time.Second
	maxGranted    = 1024
	maxGrantedKey = 4 << 10 // requesters have groups and extra attributes
)

func (g *granted) has(key string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return now.Before(g.until[key])
}

func (g *granted) add(key string, now time.Time) {
	if len(key) > maxGrantedKey {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.until) >= maxGranted {
		maps.DeleteFunc(g.until, func(_ string, t time.Time) bool { return !now.Before(t) })
	}
	if len(g.until) >= maxGranted {
		return
	}
	if g.until == nil {
		g.until = map[string]time.Time{}
	}
	g.until[key] = now.Add(grantedFor)
}

// questionKey identifies an access request: all attributes of the user and of the request.
func questionKey(q world.AccessRequest) string {
	var b strings.Builder
	list := func(values ...string) {
		for _, v := range values {
			b.WriteString(v)
			b.WriteByte(0)
		}
		b.WriteByte(1)
	}
	list(q.Verb, q.Group, q.Version, q.Resource, q.Subresource, q.Namespace, q.Name, q.Path, q.Username, q.UID)
	list(q.Groups...)
	for _, k := range slices.Sorted(maps.Keys(q.Extra)) {
		list(k)
		list(q.Extra[k]...)
	}
	return b.String()
}
