package impact

import (
	"context"
	"fmt"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
)

// callNative evaluates the policies that the API server evaluates itself, in one stage. It does so before it calls the webhooks of the stage, and for objects that
// no webhook is called for, such as those of the installation.
func (r *Replica) callNative(ctx context.Context, stage policy.Stage, req *policy.Request, v *Verdict) (*policy.Request, error) {
	if r.native == nil {
		return req, nil
	}
	bounded, end := context.WithTimeout(ctx, r.options.Timeout)
	defer end()
	req.Conf = policy.ConfOf(r.settings)
	about := req.WithObject(req.Object)
	about.Origin = policy.FromCLI // in the index no policy of the API server belongs to a shared webhook
	selections := r.native.For(about, catalog.Route{Stages: stage})
	for i := range selections {
		// One by one, since each has a failurePolicy of its own.
		out := engine.Eval(bounded, engine.Input{Selections: selections[i : i+1], Request: req, Stages: stage, Root: req.Tape.Root(r.options.Root)})
		if ended := ctx.Err(); ended != nil {
			return nil, ended
		}
		if len(out.Results) > 0 {
			v.Asked++
		}
		v.Results = append(v.Results, out.Results...)
		if d := engine.Decide(&out, nativeWording); !d.Allowed && v.Allowed {
			v.Allowed, v.Message = false, d.Message
		} else {
			v.Warnings = append(v.Warnings, d.Warnings...)
		}
		if !v.Allowed && stage.Has(policy.StageMutate) {
			return req, nil
		}
		if out.Object != nil && out.Object != req.Object {
			req = req.WithObject(out.Object)
		}
	}
	return req, nil
}

// nativeWording formats denials and warnings as the API server does, without the binding.
var nativeWording = policy.Wording{
	Refusal: func(out *policy.Outcome, by int) string { return nativeText(&out.Results[by], "denied request") },
	Warning: func(r *policy.Result) string { return nativeText(r, "validation failed") },
}

func nativeText(r *policy.Result, what string) string {
	return fmt.Sprintf("%s '%s' %s: %s", r.Program.Kind, r.Program.Name, what, r.Message)
}
