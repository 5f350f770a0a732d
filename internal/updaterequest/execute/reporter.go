package execute

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Reporter receives the results of executed work, for the reports of triggers and targets. It must not block; nil for none.
type Reporter interface {
	Put(req *policy.Request, results []policy.Result)
}

// reporter reports what became of work: in events, and in the reports of triggers and targets.
type reporter struct {
	events  event.Recorder
	reports Reporter
	read    *reader
	log     *slog.Logger
}

// severity orders statuses. The worst result of several targets is reported.
var severity = map[policy.Status]int{
	policy.StatusSkip: 1, policy.StatusPass: 2, policy.StatusWarn: 3, policy.StatusFail: 4, policy.StatusError: 5,
}

// result reports the result of a rule for one trigger: the result of its evaluation, or the failure of its work. A report holds one result
// of a rule for an object, so the results of several targets are combined.
func (x *reporter) result(t *task, req *policy.Request, out *policy.Outcome, err error) {
	if x.reports == nil || req.GVK.Empty() || err != nil && t.passes(err) {
		return
	}
	result := policy.Result{Program: t.program, Rule: t.rule}
	for i := range out.Results {
		if r := &out.Results[i]; severity[r.Status] > severity[result.Status] {
			result = *r
		}
	}
	if err != nil {
		result.Status, result.Message, result.Path = policy.StatusError, value.Message(err.Error()), ""
	}
	if result.Status == policy.StatusNone {
		return
	}
	if result.Status == policy.StatusPass {
		result.Properties = withDone(result.Properties, out.Work)
	}
	result.Object, result.Work, result.Also = nil, nil, nil // releases data that may be large and is no longer needed
	if req.GVR.Resource == "" {
		// There was no request, so there is no requester.
		m, err := x.read.client.RESTMapper().RESTMapping(req.GVK.GroupKind(), req.GVK.Version)
		if err != nil {
			x.log.Warn("a result is not reported, since the resource of its trigger's kind is not known", "kind", req.GVK.String(), "policy", t.program.Key(), "error", err)
			return
		}
		req.GVR = m.Resource
	}
	x.reports.Put(req, []policy.Result{result})
}

// maxReportedTargets is the maximum number of targets of one evaluation that get results of their own. The result of the trigger covers all
// targets.
const maxReportedTargets = 1000

// target reports the result of a rule for one of its targets, in the report of the target. A target that the rule skips gets no
// result.
func (x *reporter) target(t *task, m *policy.Mutated, err error) {
	if x.reports == nil || m.Status == policy.StatusSkip || err != nil && t.passes(err) {
		return
	}
	result := policy.Result{Program: t.program, Rule: t.rule, OfTarget: true}
	result.Status, result.Message = m.Status, m.Message
	if err != nil {
		result.Status, result.Message = policy.StatusError, value.Message(err.Error())
	}
	if req := x.read.scanRequest(&unstructured.Unstructured{Object: m.Before}); req.GVR.Resource != "" {
		x.reports.Put(req, []policy.Result{result})
	}
}

// Properties of a result that name the written objects.
const (
	generatedProperty = "generated-resources"
	patchedProperty   = "patched-target"
)

// withDone adds the names of created and patched objects to the properties of a result. It includes objects that were already up to date.
func withDone(properties map[string]string, work []policy.Work) map[string]string {
	var generated, patched []map[string]any
	for i := range work {
		for j := range work[i].Generated {
			generated = append(generated, work[i].Generated[j].Object)
		}
		for j := range work[i].Targets {
			if m := &work[i].Targets[j]; m.Status == policy.StatusPass {
				patched = append(patched, m.Before)
			}
		}
	}
	if len(generated)+len(patched) == 0 {
		return properties
	}
	out := maps.Clone(properties) // the map may be shared
	if out == nil {
		out = map[string]string{}
	}
	for key, objects := range map[string][]map[string]any{generatedProperty: generated, patchedProperty: patched} {
		if len(objects) > 0 {
			out[key] = objectList(objects)
		}
	}
	return out
}

// maxListed is the maximum size of a list of objects in a property, in bytes.
const maxListed = 8 << 10

// objectList lists objects in the format of reports: group/version, Kind=kind Name=name Namespace=namespace.
func objectList(objects []map[string]any) string {
	var b strings.Builder
	for _, o := range objects {
		u := unstructured.Unstructured{Object: o}
		text := u.GroupVersionKind().String() + " Name=" + u.GetName()
		if ns := u.GetNamespace(); ns != "" {
			text += " Namespace=" + ns
		}
		switch {
		case b.Len() == 0:
		case b.Len()+len(text) > maxListed:
			b.WriteString("; ...")
			return b.String()
		default:
			b.WriteString("; ")
		}
		b.WriteString(text)
	}
	return b.String()
}

// generated records the events of one created or changed object.
func (x *reporter) generated(t *task, u *unstructured.Unstructured) {
	about := event.Reference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())}
	x.events.Record(event.Event{
		Regarding: event.PolicyReference(t.program), Related: about, Reason: event.PolicyApplied, Action: event.ResourceGenerated,
		Note: "resource generated", Controller: event.GenerateController,
	})
	x.events.Record(event.Event{
		Regarding: about, Reason: event.PolicyApplied, Action: event.None, Controller: event.GenerateController,
		Note: fmt.Sprintf("Created %s %s as a result of applying policy %s/%s", about.Kind, about.Name, t.program.Key(), t.rule.Name),
	})
}

// failure records the event for failed work. Work that only has to wait gets no event.
func (x *reporter) failure(controller string, t *task, about event.Reference, err error) {
	if t.passes(err) {
		return
	}
	x.events.Record(event.Event{
		Regarding: event.PolicyReference(t.program), Related: about, Reason: event.PolicyError, Action: event.None, Controller: controller,
		Note: fmt.Sprintf("policy %s/%s error: %v", t.program.Key(), t.rule.Name, err),
	})
}

// skips records the events for exceptions.
func (x *reporter) skips(req *policy.Request, results []policy.Result) {
	for i := range results {
		if len(results[i].Exceptions) == 0 || results[i].Status != policy.StatusSkip {
			continue
		}
		for _, e := range event.From(req, results[i:i+1], event.Context{Controller: event.GenerateController}) {
			x.events.Record(e)
		}
	}
}
