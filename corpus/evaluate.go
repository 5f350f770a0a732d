package corpus

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/fixed"
)

// Now is the time of all evaluations.
var Now = time.Date(2024, 2, 29, 23, 59, 59, 0, time.UTC)

// Stages of the two webhooks.
const (
	mutating   = policy.StageMutate | policy.StageVerifyImages
	validating = policy.StageValidate
)

// Compile compiles the policies of the case and joins its exceptions.
func (c *Case) Compile() ([]*policy.Program, diag.List) {
	var programs []*policy.Program
	var exceptions []*policy.Exception
	var all diag.List
	for _, text := range c.Policies {
		o := compile.Object{Value: object(text, false)}
		apiVersion, _ := o.Value["apiVersion"].(string)
		kind, _ := o.Value["kind"].(string)
		if compile.OwnsException(apiVersion, kind) {
			e, diags := compile.OneException(o)
			exceptions = append(exceptions, e)
			all.Add(diags...)
			continue
		}
		p, diags := compile.One(o)
		programs = append(programs, p)
		all.Add(diags...)
	}
	joined := catalog.Join(programs, exceptions)
	return joined, all
}

// Root returns the world of the case.
func (c *Case) Root(floats bool) world.Root {
	return fixed.New(fixed.Values{Seed: 1, Now: func() time.Time { return Now }, NamespaceLabels: c.Namespaces,
		Objects: func() ([]map[string]any, error) {
			var out []map[string]any
			for _, text := range append(append([]string{}, c.Resources...), c.World...) {
				out = append(out, object(text, floats))
			}
			return out, nil
		}})
}

// Request returns the request for a resource of the case.
func (c *Case) Request(text string, floats bool) *policy.Request {
	o := object(text, floats)
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	metadata, _ := o["metadata"].(map[string]any)
	req := &policy.Request{Review: policy.Review{
		Origin: policy.FromCLI, Operation: policy.Create, Object: value.Of(o), User: &policy.User{},
		GVK: schema.FromAPIVersionAndKind(apiVersion, kind),
		ResolveNamespace: func(context.Context) (map[string]string, error) {
			ns, _ := metadata["namespace"].(string)
			return c.Namespaces[ns], nil
		},
	}}
	req.RequestGVK = req.GVK
	req.GVR = schema.GroupVersionResource{Group: req.GVK.Group, Version: req.GVK.Version, Resource: strings.ToLower(kind) + "s"}
	req.Name, _ = metadata["name"].(string)
	req.Namespace, _ = metadata["namespace"].(string)
	if c.Old != "" {
		req.Operation, req.OldObject = policy.Update, value.Of(object(c.Old, floats))
	}
	return req
}

// Evaluation is the result for one resource.
type Evaluation struct {
	Resource string   // Kind namespace/name
	Results  []string // policy/rule status: message, sorted
	Object   string   // JSON of the object after mutation; empty if it did not change
	ByMutate bool     // a mutate rule changed it; the command line does not write the annotations of image verification
	Allowed  bool
	Message  string
}

// Evaluate runs a resource through the engine as admission does: mutation, then validation of its result.
func (c *Case) Evaluate(snapshot *catalog.Snapshot, text string, floats bool) Evaluation {
	ctx, req, root := context.Background(), c.Request(text, floats), c.Root(floats)
	j := Evaluation{Resource: name(req)}
	broken := map[string]bool{}
	run := func(req *policy.Request, stages policy.Stage) policy.Outcome {
		out := engine.Eval(ctx, engine.Input{Selections: snapshot.For(req, catalog.Route{Stages: stages}), Request: req, Stages: stages, Root: root, Plan: true})
		for _, r := range out.Results {
			// A rule for images has a part in each stage; the second part is not evaluated if the first ended in an error.
			rule := r.Program.Key() + "/" + r.Rule.Name
			if broken[rule] {
				continue
			}
			broken[rule] = r.Status == policy.StatusError
			j.ByMutate = j.ByMutate || r.Rule.Stage == policy.StageMutate && r.Object != nil
			j.Results = append(j.Results, line(r.Program.Key(), r.Rule.Name, r.Status.String(), r.Message))
		}
		return out
	}
	mutated := run(req, mutating)
	decision := engine.Decide(&mutated, engine.ValidateWording)
	if mutated.Object != nil && mutated.Object != req.Object {
		v, err := mutated.Object.Value()
		if err != nil {
			panic(err)
		}
		j.Object = value.JSON(v)
		req = req.WithObject(mutated.Object)
	}
	validated := run(req, validating)
	if decision.Allowed {
		decision = engine.Decide(&validated, engine.ValidateWording)
	}
	run(req, policy.StageGenerate) // after the answer
	j.Allowed, j.Message = decision.Allowed, decision.Message
	sort.Strings(j.Results)
	return j
}

func name(req *policy.Request) string {
	if req.Namespace == "" {
		return req.GVK.Kind + " " + req.Name
	}
	return req.GVK.Kind + " " + req.Namespace + "/" + req.Name
}

func line(policyName, rule, status, message string) string {
	return policyName + "/" + rule + " " + status + ": " + strings.ReplaceAll(message, "\n", `\n`)
}

// String returns the text for a want section.
func (j Evaluation) String() string {
	var b strings.Builder
	for _, r := range j.Results {
		fmt.Fprintf(&b, "%s: %s\n", j.Resource, r)
	}
	if j.Object != "" {
		fmt.Fprintf(&b, "%s becomes %s\n", j.Resource, j.Object)
	}
	if j.Allowed {
		fmt.Fprintf(&b, "%s is admitted\n", j.Resource)
	} else {
		fmt.Fprintf(&b, "%s is refused: %s\n", j.Resource, strings.ReplaceAll(strings.TrimSpace(j.Message), "\n", `\n`))
	}
	return b.String()
}
