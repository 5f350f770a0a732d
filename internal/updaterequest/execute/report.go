package execute

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Reporter receives the results of executed work, for the reports of triggers and targets. It must not block; nil for none.
type Reporter interface {
	Put(req *policy.Request, results []policy.Result)
}

// severity orders statuses. The worst result of several targets is reported.
var severity = map[policy.Status]int{
	policy.StatusSkip: 1, policy.StatusPass: 2, policy.StatusWarn: 3, policy.StatusFail: 4, policy.StatusError: 5,
}

// report reports the result of a rule for one trigger: the result of its evaluation, or the failure of its work. A report holds one result
// of a rule for an object, so the results of several targets are combined.
func (w *Worker) report(t *task, req *policy.Request, out *policy.Outcome, err error) {
	if w.Reports == nil || req.GVK.Empty() || err != nil && t.passes(err) {
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
		m, err := w.Client.RESTMapper().RESTMapping(req.GVK.GroupKind(), req.GVK.Version)
		if err != nil {
			w.Log.Warn("a result is not reported, since the resource of its trigger's kind is not known", "kind", req.GVK.String(), "policy", t.program.Key(), "error", err)
			return
		}
		req.GVR = m.Resource
	}
	w.Reports.Put(req, []policy.Result{result})
}

// maxReportedTargets is the maximum number of targets of one evaluation that get results of their own. The result of the trigger covers all
// targets.
const maxReportedTargets = 1000

// reportTarget reports the result of a rule for one of its targets, in the report of the target. A target that the rule skips gets no
// result.
func (w *Worker) reportTarget(t *task, m *policy.Mutated, err error) {
	if w.Reports == nil || m.Status == policy.StatusSkip || err != nil && t.passes(err) {
		return
	}
	result := policy.Result{Program: t.program, Rule: t.rule, OfTarget: true}
	result.Status, result.Message = m.Status, m.Message
	if err != nil {
		result.Status, result.Message = policy.StatusError, value.Message(err.Error())
	}
	if req := w.ScanRequest(&unstructured.Unstructured{Object: m.Before}); req.GVR.Resource != "" {
		w.Reports.Put(req, []policy.Result{result})
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
