package offline

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// StageGroups are the stages in the order in which they are evaluated for an object. Kyverno has one response for each
// group in which a policy has rules.
var StageGroups = []policy.Stage{
	policy.StageMutate | policy.StageMutateExisting,
	policy.StageVerifyImages,
	policy.StageValidate,
	policy.StageGenerate,
}

// Evaluator evaluates policies on single objects, for apply and for test. It is safe for concurrent use.
type Evaluator struct {
	Policies []single
	snapshot *catalog.Snapshot // the snapshot of all policies
	stages   []policy.Stage    // the groups in which any policy has rules
	Root     world.Root
	given    *clivalues.Set
	Cluster  *remote.Cluster    // the source of the objects; nil for files
	kind     discovery.Resource // the resource of the objects, if they are from a cluster
	Names    discovery.Offline  // the resource names of kinds with given definitions
	// payload is the type of the documents, if the inputs are documents and not Kubernetes objects.
	payload policy.Payload
	// recorded is the recorded request; nil for objects without one.
	recorded *policy.Request
	// unknown are the namespaces whose labels were asked for and are not known.
	unknown *sync.Map
}

// About returns a copy of e for objects of the kind from a cluster.
func (e *Evaluator) About(k discovery.Resource) *Evaluator {
	out := *e
	out.kind = k
	return &out
}

// single is one policy on its own.
type single struct {
	Program  *policy.Program
	snapshot *catalog.Snapshot
	stages   policy.Stage
	Root     world.Root // nil if the policy uses the Root of all policies
}

func New(programs []*policy.Program, root world.Root, set *clivalues.Set) *Evaluator {
	e := &Evaluator{snapshot: catalog.NewStatic(programs), Root: root, given: set, unknown: &sync.Map{}}
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

// Answer is the result of the rules of one policy in one group of stages for an object. Its Outcome.Object is the
// object after these rules.
type Answer struct {
	Program *policy.Program
	Stage   policy.Stage
	policy.Outcome
}

// All evaluates the policies on o and returns one answer for each group of stages, which belongs to all policies
// together. It returns an answer for each policy if the user gave values for policies, and for groups in which policies
// change objects one after another. The caller must not use o afterwards.
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

// Each evaluates the policies on o one by one. It returns an answer for every policy and every group of stages in which
// the policy has rules, even if none of them applies. operation, if not empty, overrides the operation of the request.
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

// noting returns the world that notes which Namespaces are asked for and not known.
func (e *Evaluator) noting(root world.Root) world.Root {
	return world.Through(root, func(ctx context.Context, c world.Call, next world.Next) (any, error) {
		found, err := next(ctx, c.Request)
		if o, whole := found.(map[string]any); whole && o == nil && err == nil {
			if name, ok := c.Request.(world.NamespaceRequest); ok {
				e.unknown.Store(string(name), nil)
			}
		}
		return found, err
	})
}

func (e *Evaluator) run(ctx context.Context, s *catalog.Snapshot, root world.Root, req *policy.Request, stage policy.Stage, without unverified) policy.Outcome {
	in := engine.Input{
		Selections: s.For(req, catalog.Route{Stages: stage}),
		Request:    req,
		Stages:     stage,
		Root:       e.noting(root),
		Plan:       true,
	}
	if len(without) > 0 && stage.Has(policy.StageValidate) {
		in.Select = func(r *policy.Rule, _ policy.Action) bool { return !without[r] }
	}
	return engine.Eval(ctx, in)
}

// unverified holds the rules that could not verify the images of an object. The validation stage then does not report that
// these images lack a digest or a record, since that would only hide the reason if both stages are part of one run.
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

// Request returns the request with which one policy evaluates o. It includes the values that the user gave for the policy and the object.
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

// requestFor returns the request for an object of this run.
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
	req.ResolveNamespace = e.namespaceLabels(req.Namespace)
	if e.Cluster == nil {
		if req.Subresource == "" {
			req.GVR = e.Names.ResourceOf(req.GVK)
		}
		return req
	}
	k := e.kind
	if k.Kind == "" { // the object is from a file
		if found, _ := e.Cluster.Kinds.Of(req.GVK); len(found) > 0 && req.Subresource == "" { // an unknown kind has the usual resource
			k = discovery.OneVersion(found)[0]
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

// requestFor returns the request with which the command line evaluates an object: the creation of the object by the given
// user, or without a user.
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
	req := &policy.Request{Review: policy.Review{
		Origin:     policy.FromCLI,
		Operation:  policy.Create,
		GVK:        gvk,
		RequestGVK: gvk,
		GVR:        discovery.ResourceOf(gvk),
		Namespace:  namespace,
		Name:       name,
		Object:     value.Of(o),
	}}
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
	return req
}

// namespaceLabels returns the function that looks up the labels of a namespace among the given values and Namespaces. A namespace that is
// not among them has none, and UnknownNamespaces names it.
func (e *Evaluator) namespaceLabels(namespace string) func(context.Context) (map[string]string, error) {
	return func(ctx context.Context) (map[string]string, error) {
		labels, known := e.given.Namespaces()[namespace]
		if e.Root != nil && e.Cluster == nil {
			var err error
			if labels, err = e.Root.For(world.Cluster()).Namespaces.Labels(ctx, world.NamespaceRequest(namespace)); err != nil {
				return nil, err
			}
			known = labels != nil
		}
		if !known {
			e.unknown.Store(namespace, nil)
		}
		return labels, nil
	}
}

// maxNames is the number of namespaces that a warning names.
const maxNames = 5

// UnknownNamespaces warns of the namespaces whose labels were asked for and are not known, so that namespaceSelectors were evaluated without
// any. nil means that there are none.
func (e *Evaluator) UnknownNamespaces() (out diag.List) {
	var names []string
	for name := range e.unknown.Range {
		names = append(names, name.(string))
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	shown := names[:min(len(names), maxNames)]
	text := "nothing is known about the namespace"
	if len(names) > 1 {
		text += "s"
	}
	text += " " + strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	out.Add(diag.Diagnostic{
		Severity: diag.Warning, Code: diag.Unchecked, Summary: text + ": namespaceSelectors and namespaceObject find nothing of it",
		Hint: "add the Namespace to the resources, or its labels to the values (namespaceSelector)",
	})
	return out
}

// OfDocuments returns a copy of e for documents of one type, which need not be Kubernetes objects.
func (e *Evaluator) OfDocuments(p policy.Payload) *Evaluator {
	out := *e
	out.payload = p
	return &out
}

// OfRequest returns a copy of e for one recorded request. If the request names no user, the given user is its user.
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
	recorded.ResolveNamespace = e.namespaceLabels(req.Namespace)
	out.recorded = recorded
	return &out
}

// documentRequest returns the request with which a document is evaluated.
func documentRequest(o map[string]any, p policy.Payload) *policy.Request {
	return &policy.Request{Review: policy.Review{Origin: policy.FromCLI, Operation: policy.Create, Payload: p, Object: value.Of(o)}}
}
