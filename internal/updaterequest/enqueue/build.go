package enqueue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// maxContent is the maximum size of the request's objects that are copied into an UpdateRequest. The API server accepts objects of 1.5 MB.
// The worker reads an existing trigger again in any case.
const maxContent = 1 << 20

// plan is one UpdateRequest to write.
type plan struct {
	object  *kyvernov2.UpdateRequest
	program *policy.Program
}

// plans returns the UpdateRequests for the work of one request: one for each policy, trigger and type, in the order of the work. roles
// are the roles of the requester, if a rule needs them.
func plans(req *policy.Request, work []policy.Work, namespace string, roles policy.Roles) ([]plan, error) {
	var out []plan
	index := map[string]int{}
	for i := range work {
		w := &work[i]
		trigger := kyvernov2.ResourceSpec{}
		if w.Trigger != nil {
			trigger = kyvernov2.ResourceSpec{
				APIVersion: w.Trigger.APIVersion, Kind: w.Trigger.Kind, Namespace: w.Trigger.Namespace, Name: w.Trigger.Name, UID: types.UID(w.Trigger.UID),
			}
		} else {
			var err error
			if trigger, err = subjectOf(req); err != nil {
				return nil, err
			}
		}
		kind := updaterequest.Type(w.Program.Identity(), w.Rule)
		name := nameOf(kind, w.Program.Key(), trigger, causeOf(w))
		if causeOf(w) == ofDownstream {
			// Each generated object needs its own UpdateRequest, since the stored request proves that the labels of the object are true.
			about, err := subjectOf(req)
			if err != nil {
				return nil, err
			}
			name = updaterequest.Name(name, updaterequest.Text(about))
		}
		at, seen := index[name]
		if !seen {
			object, err := build(req, w, kind, trigger, roles)
			if err != nil {
				return nil, err
			}
			object.Name, object.Namespace = name, namespace
			object.Labels[updaterequest.LabelKey] = updaterequest.Key(w.Program.Key(), trigger)
			at = len(out)
			index[name] = at
			out = append(out, plan{object: object, program: w.Program})
		}
		spec := &out[at].object.Spec
		rule := kyvernov2.RuleContext{
			Rule: w.Rule.Name, Trigger: trigger, Synchronize: w.Synchronize, DeleteDownstream: w.Kind == policy.WorkDeleteDownstream,
		}
		if w.OfSource {
			rule.Trigger = kyvernov2.ResourceSpec{} // the triggers are those of the copies, which the worker finds
		}
		addRule(spec, rule)
		if w.Rule.OldContent.Conditions && causeOf(w) == ofTrigger && kinds.IsSecret(trigger.APIVersion, trigger.Kind) {
			updaterequest.Hold(out[at].object, w.Program, w.Rule.Name)
		}
	}
	return out, nil
}

// addRule adds a rule, or replaces the rule with the same name, since the last request counts.
func addRule(spec *kyvernov2.UpdateRequestSpec, rule kyvernov2.RuleContext) {
	i := slices.IndexFunc(spec.RuleContext, func(r kyvernov2.RuleContext) bool { return r.Rule == rule.Rule })
	if i < 0 {
		spec.RuleContext = append(spec.RuleContext, rule)
	} else {
		spec.RuleContext[i] = rule
	}
	if updaterequest.Mutates(spec.RequestType) {
		spec.Rule = spec.RuleContext[0].Rule
	}
}

// cause is the relation between the request of an UpdateRequest and the work. Work with different causes needs separate UpdateRequests,
// because the stored requests are for different objects.
type cause string

const (
	ofTrigger    cause = "trigger"    // the request is for the trigger
	ofSource     cause = "source"     // the request is for the source of copies: spec.resource, and the label LabelSource
	ofDownstream cause = "downstream" // the request is for an object that was generated for the trigger
)

func causeOf(w *policy.Work) cause {
	switch {
	case w.OfSource:
		return ofSource
	case w.Trigger != nil:
		return ofDownstream
	}
	return ofTrigger
}

// nameOf returns the name of the UpdateRequest for the key, which consists of type, policy, cause and trigger. The UID identifies the
// trigger, once it has one.
func nameOf(kind kyvernov2.RequestType, policyKey string, trigger kyvernov2.ResourceSpec, why cause) string {
	return updaterequest.Name(string(kind), policyKey, updaterequest.TriggerID(trigger), string(why))
}

// subjectOf returns the object of the request.
func subjectOf(req *policy.Request) (kyvernov2.ResourceSpec, error) {
	object, err := req.Subject()
	if err != nil {
		return kyvernov2.ResourceSpec{}, fmt.Errorf("read the object: %w", err)
	}
	metadata, _ := object["metadata"].(map[string]any)
	text := func(field string) string { v, _ := metadata[field].(string); return v }
	apiVersion, kind := req.GVK.ToAPIVersionAndKind()
	return kyvernov2.ResourceSpec{
		APIVersion: apiVersion, Kind: kind,
		Namespace: cmp.Or(req.Namespace, text("namespace")), Name: cmp.Or(req.Name, text("name")), UID: types.UID(text("uid")),
	}, nil
}

// build returns the UpdateRequest without its rules.
func build(req *policy.Request, w *policy.Work, kind kyvernov2.RequestType, trigger kyvernov2.ResourceSpec, roles policy.Roles) (*kyvernov2.UpdateRequest, error) {
	admission, err := admissionOf(req)
	if err != nil {
		return nil, err
	}
	u := &kyvernov2.UpdateRequest{
		ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(w, kind, trigger)},
		Spec: kyvernov2.UpdateRequestSpec{
			RequestType: kind, Policy: w.Program.Key(), Resource: trigger,
			Context: kyvernov2.UpdateRequestContext{
				UserInfo:             kyvernov2.RequestInfo{Roles: roles.Roles, ClusterRoles: roles.ClusterRoles, UserInfo: admission.UserInfo},
				AdmissionRequestInfo: kyvernov2.AdmissionRequestInfo{AdmissionRequest: admission, Operation: admission.Operation},
			},
		},
	}
	return u, noteUpdate(u, req, admission)
}

// noteUpdate notes whether an update changes its object, if the stored request does not show it.
func noteUpdate(u *kyvernov2.UpdateRequest, req *policy.Request, stored *kyvernov2.AdmissionRequest) error {
	if req.Operation != policy.Update || req.Subresource != "" {
		return nil
	}
	object, err := req.Object.Whole().Map()
	if err != nil {
		return err
	}
	old, err := req.OldObject.Map()
	if err != nil || old == nil || object == nil || !updaterequest.IsSecret(object) && stored.Object.Raw != nil && stored.OldObject.Raw != nil {
		return err
	}
	updaterequest.NoteUpdate(u, old, object)
	return nil
}

// admissionOf returns the request in the form of an UpdateRequest.
func admissionOf(req *policy.Request) (*kyvernov2.AdmissionRequest, error) {
	dryRun := req.DryRun
	out := &kyvernov2.AdmissionRequest{
		UID: types.UID(req.UID), Kind: gvk(req.RequestGVK), Resource: metav1.GroupVersionResource(req.GVR), SubResource: req.Subresource,
		Name: req.Name, Namespace: req.Namespace, Operation: admissionv1.Operation(req.Operation), DryRun: &dryRun,
	}
	if asked := req.Asked; asked != (policy.Asked{}) {
		kind, resource := gvk(asked.GVK), metav1.GroupVersionResource(asked.GVR)
		out.RequestKind, out.RequestResource, out.RequestSubResource = &kind, &resource, asked.Subresource
	}
	if u := req.User; u != nil {
		out.UserInfo = authenticationv1.UserInfo{Username: u.Username, UID: u.UID, Groups: u.Groups}
		for k, v := range u.Extra {
			if out.UserInfo.Extra == nil {
				out.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
			}
			out.UserInfo.Extra[k] = v
		}
	}
	object, err := content(req.Object.Whole())
	if err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	old, err := content(req.OldObject)
	if err != nil {
		return nil, fmt.Errorf("read the old object: %w", err)
	}
	// The old object takes precedence, because it cannot be read from the API server any more.
	if len(old) <= maxContent {
		out.OldObject.Raw = old
	}
	if len(object)+len(out.OldObject.Raw) <= maxContent {
		out.Object.Raw = object
	}
	if req.Options != nil {
		out.Options = runtime.RawExtension{Raw: value.AppendJSON(nil, req.Options)}
	}
	return out, nil
}

func gvk(g schema.GroupVersionKind) metav1.GroupVersionKind { return metav1.GroupVersionKind(g) }

// content returns an object for an UpdateRequest, without the content of Secrets and without managedFields.
func content(d *value.Doc) ([]byte, error) {
	object, err := d.Map()
	if err != nil || object == nil {
		return nil, err
	}
	return value.AppendJSON(nil, updaterequest.WithoutManagedFields(updaterequest.WithoutSecrets(object))), nil
}

// labelsOf returns the labels with which the UpdateRequest can be found. It cuts values that are too long for a label.
func labelsOf(w *policy.Work, kind kyvernov2.RequestType, trigger kyvernov2.ResourceSpec) map[string]string {
	if !updaterequest.Mutates(kind) {
		labels := map[string]string{updaterequest.LabelGeneratePolicy: updaterequest.LabelValue(w.Program.Name)}
		if w.OfSource {
			labels[updaterequest.LabelSource] = ""
		}
		return labels
	}
	return map[string]string{
		updaterequest.LabelMutatePolicy:                  updaterequest.LabelValue(w.Program.Name),
		updaterequest.LabelMutate + "trigger-name":       updaterequest.LabelValue(trigger.Name),
		updaterequest.LabelMutate + "trigger-namespace":  updaterequest.LabelValue(trigger.Namespace),
		updaterequest.LabelMutate + "trigger-kind":       updaterequest.LabelValue(trigger.Kind),
		updaterequest.LabelMutate + "trigger-apiversion": updaterequest.LabelValue(strings.ReplaceAll(trigger.APIVersion, "/", "-")),
	}
}
