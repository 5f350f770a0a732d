package familytest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Request returns the request that creates object. If object has the field $old, the request is an update from that object; with $deleted
// set to true, it is a deletion of that object. Request removes both fields from object. The resource is the plural of the kind.
func Request(object map[string]any) *policy.Request {
	old, updated := object["$old"].(map[string]any)
	deleted := object["$deleted"] == true
	delete(object, "$old")
	delete(object, "$deleted")
	r := &policy.Request{Review: policy.Review{Operation: policy.Create, Object: value.Of(object)}}
	name(r, object)
	if updated {
		r.Operation, r.OldObject = policy.Update, value.Of(old)
	}
	if deleted {
		r.Operation, r.Object = policy.Delete, nil
	}
	return r
}

// Review returns the request that in describes with the keys operation (default CREATE), subresource, user, object and oldObject. Its
// namespace has no labels.
func Review(in map[string]any) *policy.Request {
	text := func(key string) string { s, _ := in[key].(string); return s }
	r := &policy.Request{Review: policy.Review{
		Operation: policy.Operation(text("operation")), Subresource: text("subresource"),
		ResolveNamespace: func(context.Context) (map[string]string, error) { return nil, nil },
	}}
	if r.Operation == "" {
		r.Operation = policy.Create
	}
	if user := text("user"); user != "" {
		r.User = &policy.User{Username: user}
	}
	if o, ok := in["oldObject"].(map[string]any); ok {
		r.OldObject = value.Of(o)
		name(r, o)
	}
	if o, ok := in["object"].(map[string]any); ok {
		r.Object = value.Of(o)
		name(r, o)
	}
	return r
}

// name sets the kind, name and namespace of the request to those of its object.
func name(r *policy.Request, object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	r.GVK = schema.FromAPIVersionAndKind(apiVersion, kind)
	r.RequestGVK = r.GVK
	r.GVR = r.GVK.GroupVersion().WithResource(strings.ToLower(kind) + "s")
	r.Name, _ = metadata["name"].(string)
	r.Namespace, _ = metadata["namespace"].(string)
}

// Select selects all rules of the programs.
func Select(programs ...*policy.Program) (out []policy.Selection) {
	for _, p := range programs {
		out = append(out, policy.Selection{Program: p, Rules: p.Rules})
	}
	return out
}

// Except adds exceptions of policies.kyverno.io to all rules of the programs, and writes the diagnostics of the exceptions.
func Except(w io.Writer, programs []*policy.Program, exceptions []map[string]any) {
	for _, o := range exceptions {
		e, diags := celpolicy.CompileException(o, family.Options{})
		for _, d := range diags {
			fmt.Fprintln(w, d)
		}
		for _, p := range programs {
			for k, r := range p.Rules {
				joined := *r
				joined.Exceptions = append(slices.Clip(r.Exceptions), e)
				p.Rules[k] = &joined
			}
		}
	}
}

// Results writes the results of a review in one line.
func Results(w io.Writer, outcome *policy.Outcome) {
	for i := range outcome.Results {
		r := &outcome.Results[i]
		fmt.Fprintf(w, " %s", r.Status)
		if r.Unmatched {
			fmt.Fprint(w, " (unmatched)")
		}
		if r.Part != "" {
			fmt.Fprintf(w, " (%s)", r.Part)
		}
		fmt.Fprintf(w, " %.200q", r.Message)
		for _, k := range slices.Sorted(maps.Keys(r.Properties)) {
			fmt.Fprintf(w, " %s=%s", k, r.Properties[k])
		}
	}
}

// Lines writes each result of several policies on a separate line.
func Lines(w io.Writer, outcome *policy.Outcome) {
	for _, r := range outcome.Results {
		fmt.Fprintf(w, "  %s %s: %s\n", r.Program.Key(), r.Status, strings.TrimSpace(r.Part+" "+r.Message))
		if len(r.Properties) > 0 {
			fmt.Fprintf(w, "    %v\n", r.Properties)
		}
	}
}

// Work writes the work that the policies request from the background controller, as lines.
func Work(w io.Writer, outcome *policy.Outcome) {
	for _, work := range outcome.Work {
		fmt.Fprintf(w, "  %s: %s %s\n", work.Program.Key(), work.Kind, work.Propagation)
		for _, g := range work.Generated {
			fmt.Fprintf(w, "    + %s", value.JSON(g.Object))
			if g.Source != nil {
				fmt.Fprintf(w, " from %s/%s", g.Source.Namespace, g.Source.Name)
			}
			fmt.Fprintln(w)
		}
	}
}

// Compile compiles the policies and writes their diagnostics. It leaves out policies with errors.
func Compile(w io.Writer, policies []map[string]any) (out []*policy.Program) {
	for _, p := range policies {
		program, diags := compile.One(compile.Object{Value: p})
		for _, d := range diags {
			fmt.Fprintln(w, "diagnostic:", d)
		}
		if !diags.HasErrors() {
			out = append(out, program)
		}
	}
	return out
}

// Rules writes the kind, the controllers, the action and the resources of each rule.
func Rules(w io.Writer, p *policy.Program) {
	for _, r := range p.Rules {
		var about []string
		for _, target := range r.Targets {
			name := target.Group + "/" + target.Version + "/" + target.Resource
			if target.Subresource != "" {
				name += "/" + target.Subresource
			}
			about = append(about, name)
		}
		fmt.Fprintf(w, "%s %s %s: %s\n", r.Kind, r.Origin.Controllers, r.Action.Default, strings.Join(about, " "))
	}
}
