package explain

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	notes "ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/value"
)

// The verdicts of an explanation that are not statuses of results.
const (
	verdictNoMatch  = "no match"      // match or exclude leaves the resource out
	verdictNoResult = "no result"     // the rule matches the resource, but has no result
	verdictNotRun   = "not evaluated" // an earlier rule applied (applyRules: One), or the stage was not reached
	verdictElse     = "other policy"  // the policy does not apply to the resource's namespace
	verdictInput    = "other input"   // the policy's evaluation.mode is for another type of input
)

// explanation explains the result of one rule for one resource.
type explanation struct {
	Policy     string     `json:"policy"`
	Rule       string     `json:"rule"`
	Kind       string     `json:"kind"`     // such as validate.pattern
	Position   string     `json:"position"` // file:line of the rule
	Resource   string     `json:"resource"` // namespace/Kind/name
	Verdict    string     `json:"verdict"`
	Action     string     `json:"action,omitempty"`
	Message    string     `json:"message,omitempty"`
	Path       string     `json:"path,omitempty"` // the path in the resource
	Exceptions []string   `json:"exceptions,omitempty"`
	Filters    []filter   `json:"filters,omitempty"`
	Notes      notes.Rule `json:"notes"`
	Decided    []string   `json:"decided,omitempty"` // sentences that describe what decided
	ToPass     []string   `json:"toPass,omitempty"`  // sentences that describe what would make the rule pass

	autogen     bool   // the rule was generated for Pod controllers
	controllers string // the Pod controllers of a rule without a name
}

// filter is a filter of match or exclude, and its evaluated clauses.
type filter struct {
	Path    string         `json:"path"` // such as match.any[0]
	Holds   bool           `json:"holds"`
	Clauses []notes.Clause `json:"clauses"`
}

// facts is the explanation as a JSON value.
func (x *explanation) facts() any {
	b, err := json.Marshal(x)
	if err == nil {
		var v any
		if v, err = value.DecodeJSON(b); err == nil {
			return v
		}
	}
	return map[string]any{"policy": x.Policy, "rule": x.Rule, "error": err.Error()}
}

// explain evaluates all rules of one policy on o, stage by stage, and explains the result of each rule. It adds the exceptions that cannot be
// evaluated to unevaluated.
func explain(ctx context.Context, e *offline.Evaluator, from located, p *policy.Program, o map[string]any, operation policy.Operation, unevaluated *load.Unevaluated) ([]explanation, error) {
	req, err := e.Request(p, o, operation)
	if err != nil {
		return nil, err
	}
	log := &notes.Log{}
	req.Trace = log
	results := map[*policy.Rule]policy.Result{}
	evaluated := map[*policy.Rule]*notes.Rule{}
	for _, stage := range append(slices.Clip(offline.StageGroups), policy.StageDelete) {
		for _, rule := range p.Rules {
			if !stage.Has(rule.Stage) || !rule.IsFor(req.Payload) || offline.Unsuccessful(results[rule]) {
				continue // a rule of two stages that failed in the first is already explained
			}
			if log.Rules = nil; p.Settings.ApplyOne && decided(results) {
				break
			}
			// Rules are evaluated one at a time, so that the trace belongs to one rule, and the index does not leave the rule out.
			out := engine.Eval(ctx, engine.Input{
				Selections: []policy.Selection{{Program: p, Rules: []*policy.Rule{rule}}}, Request: req, Stages: stage, Root: e.Root,
			})
			unevaluated.Add(out.ExceptionErrors...)
			for _, r := range out.Results { // if a rule has several results, a failure takes precedence
				if before, given := results[rule]; !given || !offline.Unsuccessful(before) {
					results[rule] = r
				}
			}
			if len(log.Rules) > 0 {
				taken := log.Rules[0]
				if before := evaluated[rule]; before != nil { // the first stage checks signatures, the second checks records
					taken.Attestors = append(before.Attestors, taken.Attestors...)
				}
				evaluated[rule] = taken
			}
			if out.Object != req.Object {
				req = req.WithObject(out.Object)
			}
		}
	}
	var out []explanation
	for _, rule := range p.Rules {
		x := explanation{
			Policy: p.Key(), Rule: rule.Name, Kind: string(rule.Kind), Resource: resourcePath(o),
			Position: from.object.Pos(rule.Path).String(), Verdict: verdictNotRun, autogen: rule.Origin.IsAutogen() || rule.Origin.Controllers != "", controllers: rule.Origin.Controllers,
		}
		switch taken := evaluated[rule]; {
		case !rule.IsFor(req.Payload):
			x.Verdict, x.Decided = verdictInput, []string{"the policy is for " + rule.Payload.String() + ", and this is " + req.Payload.One()}
		case taken != nil:
			x.Notes = *taken
			x.evaluate(rule, results[rule])
		case rule.SkipOnDelete && req.Operation == policy.Delete:
			x.Verdict = verdictNoResult
		}
		x.advise(rule)
		out = append(out, x)
	}
	return out, nil
}

// decided reports whether a rule has passed or failed. With applyRules: One the rules after it are not evaluated.
func decided(results map[*policy.Rule]policy.Result) bool {
	for _, r := range results {
		if r.Status == policy.StatusPass || r.Status == policy.StatusFail {
			return true
		}
	}
	return false
}

func resourcePath(o map[string]any) string {
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if name == "" {
		name, _ = meta["generateName"].(string)
	}
	namespace, _ := meta["namespace"].(string)
	return namespace + "/" + kind + "/" + name
}

// evaluate sets the verdict and the filters of the explanation.
func (x *explanation) evaluate(rule *policy.Rule, result policy.Result) {
	x.filters(rule)
	x.Message, x.Path, x.Exceptions = result.Message, result.Path, policy.ExceptionKeys(result.Exceptions)
	if result.Status != policy.StatusNone {
		x.Verdict, x.Action = result.Status.String(), result.Action.String()
		return
	}
	matched, excluded := len(x.Filters) == 0, false
	all := true
	for _, f := range x.Filters {
		switch {
		case strings.HasPrefix(f.Path, "exclude"):
			excluded = excluded || f.Holds
		case strings.HasPrefix(f.Path, "match.all"), strings.HasPrefix(f.Path, "matchConstraints."):
			all = all && f.Holds
			matched = all
		default:
			matched = matched || f.Holds
		}
	}
	switch {
	case len(x.Filters) == 0:
		x.Verdict = verdictElse
	case !matched || excluded:
		x.Verdict = verdictNoMatch
	default:
		x.Verdict = verdictNoResult
	}
}

// filters groups the clauses of match and exclude by their filter. Clauses of exceptions have different paths.
func (x *explanation) filters(rule *policy.Rule) {
	for _, c := range x.Notes.Clauses {
		path, ok := strings.CutPrefix(c.Path, rule.Path+".")
		if rule.Origin.Controllers != "" && !ok { // the path lies in the generated spec
			_, path, ok = strings.Cut(c.Path, "].spec.")
		}
		if !ok {
			continue
		}
		// In match.any[0].resources.kinds, the filter is the part before the attribute.
		at := path
		for _, attribute := range []string{".resources.", ".subjects", ".roles", ".clusterRoles"} {
			if before, _, found := strings.Cut(path, attribute); found && len(before) < len(at) {
				at = before
			}
		}
		if n := len(x.Filters); n == 0 || x.Filters[n-1].Path != at {
			x.Filters = append(x.Filters, filter{Path: at, Holds: true})
		}
		f := &x.Filters[len(x.Filters)-1]
		f.Holds = f.Holds && c.Holds
		f.Clauses = append(f.Clauses, c)
	}
	x.Notes.Clauses = nil // the filters contain the clauses
}
