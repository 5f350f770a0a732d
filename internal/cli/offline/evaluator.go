package offline

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/cli/remote"
	"github.com/ephor-dev/ephor/internal/clivalues"
	"github.com/ephor-dev/ephor/internal/discovery"
	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

// StageGroups are the stages in the order in which an object passes them; Kyverno gives one response for each group of
// which a policy has rules.
var StageGroups = []policy.Stage{
	policy.StageMutate | policy.StageMutateExisting,
	policy.StageVerifyImages,
	policy.StageValidate,
	policy.StageGenerate,
}

// Evaluator runs policies on single objects, for apply and for test. It is safe for all goroutines.
type Evaluator struct {
	Policies []single
	snapshot *catalog.Snapshot // of all policies
	stages   []policy.Stage    // the groups that some policy has rules of
	Root     world.Root
	given    *clivalues.Set
	Cluster  *remote.Cluster    // that the objects are from; nil for files
	kind     discovery.Resource // of the objects, from a cluster
	Names    discovery.Offline  // of the resources of kinds that definitions are given of
	// payload is what the objects are, when they are documents and no objects of a cluster.
	payload policy.Payload
	// recorded is the request that was recorded; nil for objects without one.
	recorded *policy.Request
}

// About is e for objects of the kind, from a cluster.
func (e *Evaluator) About(k discovery.Resource) *Evaluator {
	out := *e
	out.kind = k
	return &out
}

// single is one policy by itself.
type single struct {
	Program  *policy.Program
	snapshot *catalog.Snapshot
	stages   policy.Stage
	Root     world.Root // nil for that of all policies
}

func New(programs []*policy.Program, root world.Root, set *clivalues.Set) *Evaluator {
	e := &Evaluator{snapshot: catalog.NewStatic(programs), Root: root, given: set}
	var all policy.Stage
	for _, p := range programs {
		s := single{Program: p, snapshot: catalog.NewStatic([]*policy.Program{p})}
		for _, r := range p.Rules {
			s.stages |= r.Stage
		}
		all |= s.stages
		e.Policies = append(e.Policies, s)
	}
	for _, g := range StageGroups {
		if all.Has(g) {
			e.stages = append(e.stages, g)
		}
	}
	return e
}

// Answer is what the rules of one policy and one group of stages say of an object. Its Outcome.Object is the object as
// they left it.
type Answer struct {
	Program *policy.Program
	Stage   policy.Stage
	policy.Outcome
}

// All runs the policies on o and returns one answer for each group of stages, of no policy in particular; or for each
// policy in it where values were given for policies, and where policies change objects one by one. o is the caller's no
// more.
func (e *Evaluator) All(ctx context.Context, o map[string]any) ([]Answer, error) {
	if e.given.HasValues() {
		return e.Each(ctx, o, "")
	}
	out := make([]Answer, 0, len(e.stages))
	req := e.requestFor(o)
	var without unverified
	add := func(a Answer) {
		without.add(a)
		if a.Object != req.Object {
			req = req.WithObject(a.Object)
		}
		out = append(out, a)
	}
	for _, stage := range e.stages {
		if !stage.Has(policy.StageMutate) {
			add(Answer{nil, stage, e.run(ctx, e.snapshot, e.Root, req, stage, without)})
			continue
		}
		for i := range e.Policies {
			if p := &e.Policies[i]; p.stages.Has(stage) {
				add(Answer{p.Program, stage, e.run(ctx, p.snapshot, e.Root, req, stage, without)})
			}
		}
	}
	return out, nil
}

// Each runs the policies on o one by one and returns an answer for every policy and every group of stages of which it
// has rules, also where none of them applies. operation, when not empty, is that of the request whatever was given.
func (e *Evaluator) Each(ctx context.Context, o map[string]any, operation policy.Operation) ([]Answer, error) {
	var out []Answer
	var without unverified
	object := o
	for _, stage := range e.stages {
		for i := range e.Policies {
			p := &e.Policies[i]
			if !p.stages.Has(stage) {
				continue
			}
			req, err := e.Request(p.Program, object, operation)
			if err != nil {
				return nil, err
			}
			root := p.Root
			if root == nil {
				root = e.Root
			}
			got := Answer{p.Program, stage, e.run(ctx, p.snapshot, root, req, stage, without)}
			out = append(out, got)
			without.add(got)
			if got.Object != req.Object {
				if object, err = got.Object.Map(); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

func (e *Evaluator) run(ctx context.Context, s *catalog.Snapshot, root world.Root, req *policy.Request, stage policy.Stage, without unverified) policy.Outcome {
	in := engine.Input{
		Selections: s.For(req, catalog.Route{Stages: stage}),
		Request:    req,
		Stages:     stage,
		Root:       root,
		Plan:       true,
	}
	if len(without) > 0 && stage.Has(policy.StageValidate) {
		in.Select = func(r *policy.Rule, _ policy.Action) bool { return !without[r] }
	}
	return engine.Eval(ctx, in)
}

// unverified are the rules that could not verify the images of an object. Validation need not say that these images lack a
// digest or a record: where the two stages belong to one run, that would only hide the reason.
type unverified map[*policy.Rule]bool

func (u *unverified) add(a Answer) {
	if !a.Stage.Has(policy.StageVerifyImages) {
		return
	}
	for i := range a.Results {
		if r := &a.Results[i]; Unsuccessful(*r) {
			if *u == nil {
				*u = unverified{}
			}
			(*u)[r.Rule] = true
		}
	}
}

// Unsuccessful reports whether a result is a failure or an error.
func Unsuccessful(r policy.Result) bool {
	return r.Status == policy.StatusFail || r.Status == policy.StatusError
}

// Request is the request by which one policy evaluates o, with the values given for the two.
func (e *Evaluator) Request(p *policy.Program, o map[string]any, operation policy.Operation) (*policy.Request, error) {
	req := e.requestFor(o)
	v, err := e.given.For(p.Name, req.Name)
	if err != nil {
		return nil, err
	}
	if e.recorded != nil {
		req.Given = v.Rule
		return req, nil
	}
	if operation == "" {
		operation = v.Operation
	}
	if v.Object != nil {
		o = value.Merge(o, v.Object).(map[string]any)
		req.Object = value.Of(o)
	}
	old := o
	if v.OldObject != nil {
		old = value.Merge(o, v.OldObject).(map[string]any)
	}
	switch operation {
	case policy.Update:
		req.Operation, req.OldObject = policy.Update, value.Of(old)
	case policy.Delete:
		req.Operation, req.OldObject, req.Object = policy.Delete, value.Of(old), nil
	case policy.Connect:
		req.Operation = policy.Connect
	default:
		if v.OldObject != nil {
			req.OldObject = value.Of(v.OldObject)
		}
	}
	req.Given = v.Rule
	return req, nil
}

// requestFor is requestFor for an object of this run.
func (e *Evaluator) requestFor(o map[string]any) *policy.Request {
	if e.payload != policy.NoPayload {
		return documentRequest(o, e.payload)
	}
	if e.recorded != nil {
		object := e.recorded.Object
		if object != nil {
			object = value.Of(o)
		}
		return e.recorded.WithObject(object)
	}
	req := requestFor(o, e.given)
	if e.Cluster == nil {
		if req.Subresource == "" {
			req.GVR = e.Names.ResourceOf(req.GVK)
		}
		return req
	}
	k := e.kind
	if k.Kind == "" { // an object of a file
		if found := discovery.OneVersion(e.Cluster.Kinds.Of(req.GVK)); len(found) > 0 && req.Subresource == "" {
			k = found[0]
		}
	}
	if k.Kind != "" {
		req.GVR = k.GVR()
	}
	if k.Subresource != "" {
		req.GVK, req.Subresource = k.GVK(), k.Subresource
	}
	if _, given := e.given.Namespaces()[req.Namespace]; !given && req.Namespace != "" {
		req.ResolveNamespace = func(ctx context.Context) (map[string]string, error) {
			return e.Cluster.NamespaceLabels(ctx, req.Namespace)
		}
	}
	return req
}

// requestFor makes the request by which the command line evaluates an object: its creation, by the user who was given, else
// without a user.
func requestFor(o map[string]any, set *clivalues.Set) *policy.Request {
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	req := &policy.Request{
		Origin:     policy.FromCLI,
		Operation:  policy.Create,
		GVK:        gvk,
		RequestGVK: gvk,
		GVR:        discovery.ResourceOf(gvk),
		Namespace:  namespace,
		Name:       name,
		Object:     value.Of(o),
		// The command line knows the labels of the given namespaces; the others have none.
		ResolveNamespace: func(context.Context) (map[string]string, error) { return nil, nil },
	}
	if set == nil {
		return req
	}
	if sub, is := set.Subresource(gvk); is {
		req.GVK, req.Subresource = sub.Parent, sub.Name
		req.GVR = schema.GroupVersionResource{Group: sub.Parent.Group, Version: sub.Parent.Version, Resource: sub.Resource}
	}
	user, roles := set.User()
	if user != nil {
		req.User = user
		req.ResolveRoles = func(context.Context) (policy.Roles, error) { return roles, nil }
	}
	if labels := set.Namespaces(); len(labels) > 0 {
		req.ResolveNamespace = func(context.Context) (map[string]string, error) { return labels[namespace], nil }
	}
	return req
}

// OfDocuments is e for documents of a sort, which need not be objects of a cluster.
func (e *Evaluator) OfDocuments(p policy.Payload) *Evaluator {
	out := *e
	out.payload = p
	return &out
}

// OfRequest is e for one recorded request. Where it names no user, the given one makes it.
func (e *Evaluator) OfRequest(req *policy.Request) *Evaluator {
	out := *e
	recorded := req.WithObject(req.Object)
	recorded.Origin = policy.FromCLI
	user, roles := e.given.User()
	if recorded.User == nil {
		recorded.User = user
	}
	if user != nil {
		recorded.ResolveRoles = func(context.Context) (policy.Roles, error) { return roles, nil }
	}
	labels := e.given.Namespaces()
	recorded.ResolveNamespace = func(context.Context) (map[string]string, error) { return labels[req.Namespace], nil }
	out.recorded = recorded
	return &out
}

// documentRequest is the request by which a document is evaluated.
func documentRequest(o map[string]any, p policy.Payload) *policy.Request {
	return &policy.Request{Origin: policy.FromCLI, Operation: policy.Create, Payload: p, Object: value.Of(o)}
}
