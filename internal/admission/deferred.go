package admission

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
)

// Deferred stores the work of a request until the background controller executes it.
type Deferred interface {
	// Write writes the work before the request is answered. It stores work that is not written in time elsewhere, and reports it in the
	// warnings; the answer does not depend on it.
	Write(ctx context.Context, req *policy.Request, work []policy.Work) (warnings []string)
}

// deferredStages are the stages of rules whose work is executed after the request.
const deferredStages = policy.StageGenerate | policy.StageMutateExisting

// deferWork evaluates the rules with deferred work, and passes the work to Deferred. A rule that cannot be evaluated has no work, since it
// would fail again in the background controller. Its error is reported here, as are exemptions.
func (s *Server) deferWork(ctx context.Context, req *policy.Request, selections []policy.Selection, row boundRoute, spent *budget.Request) (warnings []string) {
	if s.Deferred == nil || req.DryRun {
		return nil
	}
	background := s.review.Accounts.Background != "" && req.User != nil && req.User.Username == s.review.Accounts.Background
	var work []policy.Work
	if uses(selections, deferredStages) {
		out := s.eval(ctx, engine.Input{Selections: selections, Request: req, Stages: deferredStages, Root: s.rootOf(req), Spent: spent})
		s.Observer.Evaluated(&out)
		var ended []policy.Result // results without work; the background controller reports the others
		for i := range out.Results {
			switch r := &out.Results[i]; {
			case r.Status == policy.StatusError:
				logResult(ctx, s.Log, req, r)
				ended = append(ended, *r)
			case len(r.Exceptions) > 0 && r.Rule.Generation != nil && r.Rule.Generation.ReportsExempt:
				ended = append(ended, *r)
			}
		}
		s.report(req, ended, false)
		work = out.Work
	}
	if background {
		// Otherwise the controller's own changes would request the same work for ever.
		work = slices.DeleteFunc(work, func(w policy.Work) bool { return w.SkipBackground })
	} else {
		work = append(work, s.disturbed(req, row)...)
	}
	work, warnings = s.requested(ctx, req, work)
	if len(work) == 0 {
		return warnings
	}
	return append(warnings, s.Deferred.Write(ctx, req, work)...)
}

// requested returns the work without that of rules that depend on the requester, if the review of a creation cannot be the API server's. Only
// the review names the requester, and a client that was shown the path of the webhook could send it for an object that it created itself. The
// API server asks before it stores the object, whose UID it has chosen at random.
func (s *Server) requested(ctx context.Context, req *policy.Request, work []policy.Work) (_ []policy.Work, warnings []string) {
	asks := func(w policy.Work) bool { return w.Trigger == nil && w.Rule.AsksRequester() }
	if s.StoredUID == nil || req.Operation != policy.Create || req.Subresource != "" || !slices.ContainsFunc(work, asks) {
		return work, nil
	}
	uid := uidOf(req)
	if uid == "" {
		return work, nil // it is set before validating webhooks are called, except by some aggregated API servers
	}
	stored, err := s.StoredUID(ctx, req.GVK, req.Namespace, req.Name)
	switch {
	case err != nil:
		s.Log.Error("the work of rules that depend on the requester is lost: it cannot be checked whether the object is new", "uid", req.UID, "kind", req.GVK.Kind, "namespace", req.Namespace, "name", req.Name, "error", err)
		warnings = append(warnings, "the work of rules that depend on the requester is lost: "+err.Error())
	case stored == uid:
		s.Log.Warn("a review of a creation names an object that exists already: the rules that depend on the requester are not executed for it; another client than the API server may have sent it",
			"uid", req.UID, "kind", req.GVK.Kind, "namespace", req.Namespace, "name", req.Name)
		s.failed() // the path is known to another client
	default:
		return work, nil
	}
	return slices.DeleteFunc(work, asks), warnings
}

// uidOf returns the UID of the request's object; empty if it has none.
func uidOf(req *policy.Request) string {
	object, err := req.Object.Map()
	if err != nil {
		return ""
	}
	metadata, _ := object["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	return uid
}

// The labels of generated objects, and of copied sources.
const (
	labelPrefix  = "generate.kyverno.io/"
	labelSource  = labelPrefix + "clone-source"
	labelManaged = "app.kubernetes.io/managed-by"
)

// synchronized holds the generate rules of a snapshot that synchronize their objects.
type synchronized struct {
	snapshot *catalog.Snapshot
	rules    []syncRule
}

type syncRule struct {
	program *policy.Program
	rule    *policy.Rule
}

// synchronizing caches the rules of the last snapshot.
type synchronizing struct{ last atomic.Pointer[synchronized] }

func (c *synchronizing) of(s *catalog.Snapshot) []syncRule {
	if last := c.last.Load(); last != nil && last.snapshot == s {
		return last.rules
	}
	next := &synchronized{snapshot: s}
	for _, p := range s.Programs() {
		for _, r := range p.Rules {
			if r.Generation != nil && r.Generation.Synchronize && !r.Generation.Watched && p.Settings.Admission {
				next.rules = append(next.rules, syncRule{p, r})
			}
		}
	}
	c.last.Store(next)
	return next.rules
}

// disturbed returns the work for a change or deletion of an object that a synchronizing rule created or copied: the rule is executed again,
// and copies follow their source.
func (s *Server) disturbed(req *policy.Request, row boundRoute) []policy.Work {
	if req.Subresource != "" || req.OldObject == nil || req.Operation != policy.Update && req.Operation != policy.Delete {
		return nil
	}
	rules := s.synchronizing.of(row.policies)
	if len(rules) == 0 {
		return nil
	}
	if text := req.OldObject.Text(); text != "" && !strings.Contains(text, labelPrefix) {
		return nil // this is true for most objects, which then need not be decoded
	}
	old, err := req.OldObject.Map()
	if err != nil {
		return nil
	}
	metadata, _ := old["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	_, source := labels[labelSource]
	var work []policy.Work
	for _, x := range rules {
		if !row.Covers(x.program) {
			continue
		}
		again := policy.Work{Program: x.program, Rule: x.rule, Kind: policy.WorkGenerate, Synchronize: true}
		if trigger := triggerOf(labels, x.program, x.rule); trigger != nil {
			again.Trigger = trigger
			work = append(work, again)
		}
		if source && copies(x.rule, req.GVK) {
			again.Trigger, again.OfSource = nil, true
			if req.Operation == policy.Delete {
				again.Kind = policy.WorkDeleteDownstream
			}
			work = append(work, again)
		}
	}
	return work
}

// triggerOf returns the trigger that the labels of a generated object name; nil if the rule did not create the object.
func triggerOf(labels map[string]any, p *policy.Program, r *policy.Rule) *policy.Source {
	get := func(name string) string { v, _ := labels[labelPrefix+name].(string); return v }
	if labels[labelManaged] != "kyverno" || get("policy-name") != p.Name || get("policy-namespace") != p.Namespace || get("rule-name") != r.Name {
		return nil
	}
	t := &policy.Source{
		APIVersion: schema.GroupVersion{Group: get("trigger-group"), Version: get("trigger-version")}.String(),
		Kind:       get("trigger-kind"), Namespace: get("trigger-namespace"), Name: get("trigger-name"), UID: get("trigger-uid"),
	}
	if t.Kind == "" || t.UID == "" && t.Name == "" {
		return nil
	}
	return t
}

// copies reports whether the rule copies objects of the kind.
func copies(r *policy.Rule, gvk schema.GroupVersionKind) bool {
	return slices.ContainsFunc(r.Outputs, func(o policy.Output) bool {
		group, _, named := strings.Cut(o.APIVersion, "/")
		if !named {
			group = "" // the core group has only a version
		}
		return o.Copy && o.Kind == gvk.Kind && group == gvk.Group
	})
}
