package taped

import (
	"context"
	"net/netip"

	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Root returns a Root that records the lookups in next, or answers them from the record. next may be nil if the tape answers from a record.
// The nil Tape returns next.
func (t *Tape) Root(next world.Root) world.Root {
	if t == nil || next == nil && t.play == nil {
		return next
	}
	return world.RootFunc(func(r world.Reach) world.World {
		var w world.World
		if next != nil {
			w = next.For(r)
		}
		at := side{t, reachOf(r)}
		if t.play == nil {
			t.shape(at.reach, &w)
		}
		return at.world(&w)
	})
}

// side records or replays the lookups within one Reach.
type side struct {
	*Tape
	reach string
}

func (s side) of(q question) question {
	q.reach = s.reach
	return q
}

// The names of members of a World, and of their optional interfaces.
const (
	memberObjects, memberLists, memberFind                = "Objects", "Lists", "KindFinder"
	memberNamespaces, memberNamespace                     = "Namespaces", "NamespaceObjects"
	memberAPI, memberResources, memberServices            = "API", "Resources", "Services"
	memberHTTP, memberGlobals, memberImages               = "HTTP", "Globals", "Images"
	memberDigests, memberSignatures, memberSeals          = "Digests", "Signatures", "Seals"
	memberAccess, memberKinds, memberPlural, memberServed = "Access", "Kinds", "ResourceFinder", "ResourceKinds"
	memberNames, memberClock, memberRand                  = "Names", "Clock", "Rand"
)

// has returns the members that a World has.
func has(w *world.World) map[string]bool {
	_, find := w.Lists.(world.KindFinder)
	_, ns := w.Namespaces.(world.NamespaceObjects)
	_, digests := w.Images.(world.Digests)
	_, plural := w.Kinds.(world.ResourceFinder)
	_, served := w.Kinds.(world.ResourceKinds)
	return map[string]bool{
		memberObjects: w.Objects != nil, memberLists: w.Lists != nil, memberFind: find, memberNamespaces: w.Namespaces != nil, memberNamespace: ns,
		memberAPI: w.API != nil, memberResources: w.Resources != nil, memberServices: w.Services != nil, memberHTTP: w.HTTP != nil,
		memberGlobals: w.Globals != nil, memberImages: w.Images != nil, memberDigests: digests, memberSignatures: w.Signatures != nil,
		memberSeals: w.Seals != nil, memberAccess: w.Access != nil, memberKinds: w.Kinds != nil, memberPlural: plural, memberServed: served,
		memberNames: w.Names != nil, memberClock: w.Clock != nil, memberRand: w.Rand != nil,
	}
}

func lackOf(reach, member string) string { return reach + " " + member }

// shape notes which members a World does not have.
func (t *Tape) shape(reach string, w *world.World) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for member, ok := range has(w) {
		if !ok && !t.closed {
			t.lacks[lackOf(reach, member)] = true
		}
	}
}

// world returns a World that records the lookups in w, or answers them from the record.
func (s side) world(w *world.World) (out world.World) {
	ok := has(w)
	if p := s.play; p != nil { // the members that the review had
		for member := range ok {
			ok[member] = true
		}
		for _, lack := range p.Lacks {
			if len(lack) > len(s.reach) && lack[:len(s.reach)+1] == s.reach+" " {
				ok[lack[len(s.reach)+1:]] = false
			}
		}
	}
	if ok[memberObjects] {
		out.Objects = objects{s, w.Objects}
	}
	if ok[memberLists] {
		out.Lists = s.lists(w.Lists, ok[memberFind])
	}
	if ok[memberNamespaces] {
		out.Namespaces = s.namespaces(w.Namespaces, ok[memberNamespace])
	}
	if ok[memberAPI] {
		out.API = s.api(api, w.API)
	}
	if ok[memberResources] {
		out.Resources = s.api(resource, w.Resources)
	}
	if ok[memberServices] {
		out.Services = world.ServicesFunc(func(ctx context.Context, r world.ServiceRequest) (any, error) {
			return ask(ctx, s.Tape, s.of(serviceQuestion(service, r)), when(w.Services, func(ctx context.Context) (any, error) { return w.Services.Call(ctx, r) }))
		})
	}
	if ok[memberHTTP] {
		out.HTTP = world.HTTPFunc(func(ctx context.Context, r world.ServiceRequest) (map[string]any, error) {
			return ask(ctx, s.Tape, s.of(serviceQuestion(http, r)), when(w.HTTP, func(ctx context.Context) (map[string]any, error) { return w.HTTP.Exchange(ctx, r) }))
		})
	}
	if ok[memberGlobals] {
		out.Globals = world.GlobalsFunc(func(ctx context.Context, name string) (any, error) {
			q := question{method: Global, asked: words(name)}
			if of, is := w.Globals.(world.GlobalSecrets); is {
				q.secrets = of.OfSecrets(name)
			}
			return ask(ctx, s.Tape, s.of(q), when(w.Globals, func(ctx context.Context) (any, error) { return w.Globals.Global(ctx, name) }))
		})
	}
	if ok[memberImages] {
		out.Images = s.images(w.Images, ok[memberDigests])
	}
	if ok[memberSignatures] {
		out.Signatures = signatures{s, w.Signatures}
	}
	if ok[memberSeals] {
		out.Seals = seals{s, w.Seals}
	}
	if ok[memberAccess] {
		out.Access = access{s, w.Access}
	}
	if ok[memberKinds] {
		out.Kinds = s.kinds(w.Kinds, ok[memberPlural], ok[memberServed])
	}
	if ok[memberNames] {
		out.Names = names{s, w.Names}
	}
	if out.Clock = w.Clock; s.play != nil {
		out.Clock = nil
		if ok[memberClock] {
			out.Clock = clock(s.play.Time)
		}
	}
	if ok[memberRand] {
		out.Rand = numbers{s, w.Rand}
	}
	return out
}

// when returns f, or nil if the member that f calls is nil.
func when[M comparable, T any](member M, f func(context.Context) (T, error)) func(context.Context) (T, error) {
	var none M
	if member == none {
		return nil
	}
	return f
}

type objects struct {
	side
	next world.Objects
}

func (o objects) Get(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
	q := question{method: object, asked: words(apiVersion, kind, namespace, name), secrets: kinds.IsSecret(apiVersion, kind)}
	return ask(ctx, o.Tape, o.of(q), when(o.next, func(ctx context.Context) (map[string]any, error) {
		return o.next.Get(ctx, apiVersion, kind, namespace, name)
	}))
}

func (s side) api(method string, next world.API) world.API {
	return world.APIFunc(func(ctx context.Context, r world.APIRequest) (any, error) {
		return ask(ctx, s.Tape, s.of(apiQuestion(method, r)), when(next, func(ctx context.Context) (any, error) { return next.Call(ctx, r) }))
	})
}

type access struct {
	side
	next world.Access
}

// permission is an answer of Access.
type permission struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"`
}

func (a access) Allowed(ctx context.Context, r world.AccessRequest) (bool, string, error) {
	p, err := ask(ctx, a.Tape, a.of(accessQuestion(r)), when(a.next, func(ctx context.Context) (p permission, err error) {
		p.Allowed, p.Reason, err = a.next.Allowed(ctx, r)
		return p, err
	}))
	return p.Allowed, p.Reason, err
}

type names struct {
	side
	next world.Names
}

func (n names) LookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	return ask(ctx, n.Tape, n.of(question{method: host, asked: words(name)}), when(n.next, func(ctx context.Context) ([]netip.Addr, error) {
		return n.next.LookupHost(ctx, name)
	}))
}

type numbers struct {
	side
	next world.Rand
}

// Intn implements world.Rand. Equal lookups have separate answers, in the order in which they are made.
func (r numbers) Intn(n int) int {
	t := r.Tape
	t.mu.Lock()
	i := t.randoms
	t.randoms++
	t.mu.Unlock()
	q := question{method: random, asked: value.JSON([]any{int64(n), int64(i)})}
	v, err := ask(context.Background(), t, r.of(q), when(r.next, func(context.Context) (int, error) { return r.next.Intn(n), nil }))
	if err != nil || v < 0 || v >= n {
		return 0 // the lookup is in Missing, so no result that depends on the number counts
	}
	return v
}
