package admission

import (
	"context"
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// handler answers one review. An error becomes an HTTP error, so that the webhook's failurePolicy decides.
type handler func(s *Server, ctx context.Context, req *policy.Request, row place) (response, error)

// route is a row of the table of paths.
type route struct {
	handle handler
	catalog.Route
	// words is how the route words what policies decide; the zero Wording where none decide.
	words engine.Wording
	// operations that are evaluated; others are let through untouched. nil for all.
	operations []policy.Operation
}

// place is where a review is evaluated: a row of the table, by the policies as they were when the review came.
type place struct {
	*route
	policies *catalog.Snapshot
}

// reads is what the rules of the place read of the object of a request; nil when that may be anything.
func (p place) reads(r *policy.Request) *value.Fields {
	if p.Stages == 0 {
		return nil
	}
	return p.policies.Reads(r, p.Route)
}

func (r *route) evaluates(op policy.Operation) bool {
	return r.operations == nil || slices.Contains(r.operations, op)
}

var (
	fail   = policy.Fail
	ignore = policy.Ignore

	// changing are the operations that carry an object which could still be changed.
	changing = []policy.Operation{policy.Create, policy.Update, policy.Connect}
)

// The stages of the two kinds of resource webhooks.
const (
	validateStages = policy.StageValidate | deferredStages
	mutateStages   = policy.StageMutate | policy.StageVerifyImages
)

// table holds the paths of a process.
type table map[string]*route

// routes is the table of the admission controller: every path of a POST that does not name a policy.
var routes = table{
	"/validate":          {handle: (*Server).reviewResource, words: engine.ValidateWording, Route: catalog.Route{Stages: validateStages}},
	"/validate/fail":     {handle: (*Server).reviewResource, words: engine.ValidateWording, Route: catalog.Route{Stages: validateStages, FailurePolicy: &fail}},
	"/validate/ignore":   {handle: (*Server).reviewResource, words: engine.ValidateWording, Route: catalog.Route{Stages: validateStages, FailurePolicy: &ignore}},
	"/mutate":            {handle: (*Server).mutateResource, words: engine.MutateWording, Route: catalog.Route{Stages: mutateStages}, operations: changing},
	"/mutate/fail":       {handle: (*Server).mutateResource, words: engine.MutateWording, Route: catalog.Route{Stages: mutateStages, FailurePolicy: &fail}, operations: changing},
	"/mutate/ignore":     {handle: (*Server).mutateResource, words: engine.MutateWording, Route: catalog.Route{Stages: mutateStages, FailurePolicy: &ignore}, operations: changing},
	"/policyvalidate":    {handle: (*Server).reviewPolicy},
	"/policymutate":      {handle: (*Server).allow},
	"/exceptionvalidate": {handle: (*Server).reviewException},
	"/verifymutate":      {handle: (*Server).heartbeat},

	"/globalcontextvalidate": {handle: (*Server).reviewGlobalContext},
}

// fixed is the table for webhooks that do not follow the policies (Options.FixedWebhooks).
func (t table) fixed() table {
	out := make(table, len(t))
	for path, row := range t {
		own := *row
		own.FixedWebhooks = true
		out[path] = &own
	}
	return out
}

// finegrained separates the shared part of a path from the key of the one policy that the webhook is for.
const finegrained = "/finegrained/"

// find returns the row for a path, nil when there is none.
func (t table) find(path string) *route {
	if row := t[path]; row != nil {
		return row
	}
	base, key, ok := strings.Cut(path, finegrained)
	row := t[base]
	if !ok || row == nil || row.FailurePolicy == nil || key == "" || strings.Count(key, "/") > 1 {
		return nil
	}
	own := *row
	own.Policy = key
	return &own
}
