package admission

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// handler answers one review. An error becomes an HTTP error, so that the webhook's failurePolicy decides.
type handler func(s *Server, ctx context.Context, req *policy.Request, row boundRoute) (response, error)

// route is a row of the table of paths.
type route struct {
	handle handler
	catalog.Route
	// words is the wording of the decisions by policies on this route; zero if no policy decides.
	words engine.Wording
	// operations are the evaluated operations; others are admitted unchanged. nil for all.
	operations []policy.Operation
	// mutating: the webhooks of the route are in mutating configurations.
	mutating bool
	// at is the endpoint of a row for policies; nil for other rows.
	at *policy.Endpoint
}

// boundRoute is a row of the table with the snapshot of the policies at the time of the review.
type boundRoute struct {
	*route
	policies *catalog.Snapshot
}

// reads returns the fields of the object that the rules of the route read; nil if they may read any field.
func (p boundRoute) reads(r *policy.Request) *value.Fields {
	if p.Stages == 0 {
		return nil
	}
	return p.policies.Reads(r, p.Route)
}

func (r *route) evaluates(op policy.Operation) bool {
	return r.operations == nil || slices.Contains(r.operations, op)
}

// changing are the operations with an object that can still be changed.
var changing = []policy.Operation{policy.Create, policy.Update, policy.Connect}

// table holds the paths of a process.
type table struct {
	rows map[string]*route
	// byName holds the rows whose paths continue with the names of policies.
	byName []*route
	cache  *named
}

// routesOf returns the table of the admission controller for families of policies: every POST path that does not name a policy.
func routesOf(families []*family.Family) table {
	t := table{cache: &named{}, rows: map[string]*route{
		"/policyvalidate":        {handle: (*Server).reviewPolicy},
		"/policymutate":          {handle: (*Server).allow, mutating: true},
		"/globalcontextvalidate": {handle: (*Server).reviewGlobalContext},
		"/verifymutate":          {handle: (*Server).heartbeat, mutating: true},
	}}
	for _, f := range families {
		if x := f.Exceptions; x != nil {
			t.rows[x.Path] = &route{handle: (*Server).reviewException}
		}
		for i := range f.Endpoints {
			t.add(f.Name, &f.Endpoints[i])
		}
	}
	return t
}

// add adds the rows of an endpoint.
func (t *table) add(family string, at *policy.Endpoint) {
	row := route{handle: (*Server).reviewResource, words: engine.ValidateWording, Route: catalog.Route{Family: family, Stages: at.Stages}, at: at}
	if at.Mutating {
		row.handle, row.words = (*Server).mutateResource, engine.MutateWording
		row.mutating = true
		if !at.Stages.Has(deferredStages) {
			row.operations = changing // a deletion may cause deferred work
		}
	}
	if at.Words.Refusal != nil {
		row.words = at.Words
	}
	if at.ByName {
		t.byName = append(t.byName, &row)
		return
	}
	t.rows[at.Path] = &row
	for _, fp := range []policy.FailurePolicy{policy.Fail, policy.Ignore} {
		own := row
		own.FailurePolicy = &fp
		t.rows[at.Path+"/"+strings.ToLower(fp.String())] = &own
	}
}

// unserved is the row for paths of Kyverno families that this program does not evaluate.
var unserved = route{handle: (*Server).answerUnserved}

// answerUnserved admits the request with a warning. The path belongs to a webhook that a Kyverno installation left behind; an error would
// deny requests on behalf of policies that are not enforced.
func (s *Server) answerUnserved(context.Context, *policy.Request, boundRoute) (response, error) {
	return response{allowed: true, warnings: []string{"Ephor evaluates no policies at the path of this webhook: it belongs to policies of another version or program"}}, nil
}

// ofFamily reports whether the path has the form of Kyverno's paths for CEL policies: an abbreviation that ends in "pol".
func ofFamily(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	short, ok := strings.CutSuffix(first, "pol")
	return ok && len(short) <= 3 && strings.Trim(short, "abcdefghijklmnopqrstuvwxyz") == ""
}

// fixed returns the table for webhooks that do not follow the policies (Options.FixedWebhooks).
func (t table) fixed() table {
	out := table{rows: make(map[string]*route, len(t.rows)), byName: t.byName, cache: t.cache}
	for path, row := range t.rows {
		own := *row
		own.FixedWebhooks = true
		out.rows[path] = &own
	}
	return out
}

// finegrained separates the shared part of a path from the key of the one policy that the webhook is for.
const finegrained = "/finegrained/"

// find returns the row for a path, nil if there is none.
func (t table) find(path string) *route {
	if row := t.rows[path]; row != nil {
		return row
	}
	row := t.cache.find(path)
	if row == nil {
		if row = t.parse(path); row != nil {
			t.cache.add(path, row)
		}
	}
	return row
}

// parse returns the row for a path that names policies.
func (t table) parse(path string) *route {
	for _, row := range t.byName {
		if names, ok := strings.CutPrefix(path, row.at.Path); ok && (names == "" || names[0] == '/') {
			var ids []catalog.ID
			for name := range strings.SplitSeq(names, "/") {
				ids = append(ids, catalog.ID{Namespace: catalog.AnyNamespace, Name: name})
			}
			return row.of(ids...)
		}
	}
	base, key, ok := strings.Cut(path, finegrained)
	row := t.rows[base]
	if !ok || row == nil || row.FailurePolicy == nil || key == "" || strings.Count(key, "/") > 1 {
		return nil
	}
	namespace, name, namespaced := strings.Cut(key, "/")
	if !namespaced {
		namespace, name = "", key
	}
	return row.of(catalog.ID{Namespace: namespace, Name: name})
}

// of returns the row limited to these policies; nil if a policy has no name.
func (r *route) of(policies ...catalog.ID) *route {
	own := *r
	own.Policies = catalog.IDs{}
	for _, id := range policies {
		for _, id.Kind = range r.at.Kinds {
			if id.Name != "" {
				own.Policies[id] = true
			}
		}
	}
	return &own
}

// named caches the rows for paths with names, since each request to such a webhook has one.
type named struct {
	rows  sync.Map // *route by path
	bytes atomic.Int64
}

// maxNamed bounds the size of the cached paths, in bytes.
const maxNamed = 4 << 20

func (n *named) find(path string) *route {
	if n == nil {
		return nil
	}
	row, _ := n.rows.Load(path)
	r, _ := row.(*route)
	return r
}

// add caches a row. Paths change with the policies, so a full cache is emptied.
func (n *named) add(path string, row *route) {
	if n.bytes.Add(int64(len(path))) > maxNamed {
		n.rows.Clear()
		n.bytes.Store(int64(len(path)))
	}
	n.rows.Store(strings.Clone(path), row)
}
