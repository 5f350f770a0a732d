package event

import (
	"cmp"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// Context describes the source of results.
type Context struct {
	Controller string
	// Blocked: the request was denied.
	Blocked bool
}

// From returns the events for the results of one request. Each policy has its own events: one for every failed rule, and one on the
// resource for each of its rules (in a scan: for each failed rule), unless the request was denied. If no rule failed, there is one for
// every rule that an exception skipped; without skips, one that reports the policy as applied. A denied request has events only for
// violations. An object without a name (generateName, in a mutating review) has no events, because they could not refer to it.
func From(req *policy.Request, results []policy.Result, c Context) []Event {
	r := report.ResourceOf(req)
	resource := Reference{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID}
	if resource.Name == "" {
		return nil
	}
	if resource.Kind == "Namespace" && !strings.Contains(r.APIVersion, "/") {
		resource.Namespace = "" // a Namespace is in no namespace, although the review has one
	}
	var out []Event
	for i := range results {
		p := results[i].Program
		switch {
		case c.Blocked:
			if violated(&results[i]) {
				out = append(out, c.violation(PolicyReference(p), resource, &results[i]))
			}
		case !seenBefore(results[:i], p):
			out = append(out, c.policyEvents(of(results[i:], p), p, resource)...)
		}
	}
	return out
}

func seenBefore(results []policy.Result, p *policy.Program) bool {
	for i := range results {
		if results[i].Program == p {
			return true
		}
	}
	return false
}

// of returns the results of one policy.
func of(results []policy.Result, p *policy.Program) []*policy.Result {
	var own []*policy.Result
	for i := range results {
		if results[i].Program == p {
			own = append(own, &results[i])
		}
	}
	return own
}

// policyEvents returns the events for the results of one policy, for a request that was not denied.
func (c Context) policyEvents(results []*policy.Result, p *policy.Program, resource Reference) []Event {
	var failed, passed, mutated bool
	var answers []policy.Attested
	var skipped []*policy.Result
	for _, r := range results {
		switch {
		case violated(r):
			failed = true
		case r.Status == policy.StatusSkip && len(r.Exceptions) > 0:
			skipped = append(skipped, r)
		case r.Status == policy.StatusPass || r.Status == policy.StatusWarn:
			passed, answers = true, append(answers, r.Attested()...)
			mutated = mutated || r.Rule.Stage.Has(policy.StageMutate)
		}
	}
	about := PolicyReference(p)
	var out []Event
	switch {
	case failed:
		for _, r := range results {
			if violated(r) {
				out = append(out, c.violation(about, resource, r))
			}
		}
		for _, r := range results {
			if violated(r) || c.Controller != ScanController {
				out = append(out, Event{
					Regarding: resource, Reason: PolicyViolation, Action: ResourcePassed, Controller: c.Controller,
					Note: "policy " + p.Key() + "/" + ruleName(r) + " " + r.Status.String() + ": " + r.Message + attested(r.Attested()),
				})
			}
		}
	case len(skipped) > 0:
		for _, r := range skipped {
			out = append(out, c.skips(about, resource, r)...)
		}
	case passed:
		e := Event{
			Regarding: about, Related: resource, Reason: PolicyApplied, Action: ResourcePassed, Controller: c.Controller,
			Note: title(resource) + ": pass",
		}
		if mutated {
			e.Action, e.Note = ResourceMutated, title(resource)+" is successfully mutated"
		}
		e.Note += attested(answers)
		out = append(out, e)
	}
	return out
}

// ruleName returns the rule's name in events: the part of the policy that produced the result, or the rule.
func ruleName(r *policy.Result) string { return cmp.Or(r.Part, r.Rule.Name) }

func violated(r *policy.Result) bool {
	return r.Status == policy.StatusFail || r.Status == policy.StatusError
}

// violation returns the event on the policy.
func (c Context) violation(about, resource Reference, r *policy.Result) Event {
	action := ResourcePassed
	var note strings.Builder
	note.WriteString(title(resource))
	note.WriteString(": ")
	if rule := ruleName(r); rule != "" {
		note.WriteString("[" + rule + "] ")
	}
	note.WriteString(r.Status.String())
	if c.Blocked {
		action = ResourceBlocked
		note.WriteString(" (blocked)")
	}
	if r.Message != "" {
		note.WriteString("; " + r.Message)
	}
	note.WriteString(attested(r.Attested()))
	return Event{
		Regarding: about, Related: resource, Reason: PolicyViolation, Action: action, Note: note.String(), Controller: c.Controller,
	}
}

// maxAttested is the maximum number of attestors in a note. Notes are short.
const maxAttested = 4

// attested lists which attestors signed which images, with their digests, and which did not.
func attested(answers []policy.Attested) string {
	var out strings.Builder
	for i, a := range answers {
		if i == maxAttested {
			fmt.Fprintf(&out, "; and %d more", len(answers)-i)
			break
		}
		verb := "is signed by"
		if a.Type != "" {
			verb = "has a statement " + a.Type + " by"
		}
		switch a.Status {
		case policy.StatusFail:
			verb = strings.NewReplacer("is signed", "is not signed", "has a", "has no").Replace(verb)
		case policy.StatusError:
			verb = strings.NewReplacer("is signed", "may be signed", "has a", "may have a").Replace(verb)
		}
		out.WriteString("; " + a.Image + " " + verb + " " + imageverify.Describe(a.Attestor))
		if a.Path != "" {
			out.WriteString(" (" + a.Path + ")")
		}
	}
	return out.String()
}

// skips returns the events on the policy and on each exception.
func (c Context) skips(about, resource Reference, r *policy.Result) []Event {
	name, rule := resource.Kind+"/"+slashed(resource), ruleName(r)
	out := []Event{{
		Regarding: about, Related: resource, Reason: PolicySkipped, Action: ResourcePassed, Controller: c.Controller,
		Note: "resource " + name + " was skipped from rule " + rule + " due to policy exceptions " + strings.Join(policy.ExceptionKeys(r.Exceptions), ", "),
	}}
	for _, e := range r.Exceptions {
		out = append(out, Event{
			Regarding: Reference{APIVersion: e.APIVersion, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name, UID: e.UID}, Related: resource,
			Reason: PolicySkipped, Action: ResourcePassed, Controller: c.Controller,
			Note: "resource " + name + " was skipped from policy rule " + r.Program.Key() + "/" + rule,
		})
	}
	return out
}

// title returns `Kind namespace/name`.
func title(r Reference) string { return r.Kind + " " + slashed(r) }

// slashed returns `namespace/name`, or only the name if there is no namespace.
func slashed(r Reference) string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}
