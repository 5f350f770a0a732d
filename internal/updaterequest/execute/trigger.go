package execute

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/listwatch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// goneError means that the trigger no longer exists. It ends the work.
type goneError struct{ trigger kyvernov2.ResourceSpec }

func (e goneError) Error() string {
	return fmt.Sprintf("trigger %s with uid %s is not in the cluster; the API server may have rejected the request", updaterequest.Text(e.trigger), e.trigger.UID)
}

// live reads the object from the API server. It ignores an object with the same name but another UID.
func (w *Worker) live(ctx context.Context, r kyvernov2.ResourceSpec) (*unstructured.Unstructured, error) {
	if r.Name == "" {
		return nil, fmt.Errorf("read trigger %s: it has no name, so it is unknown whether it still exists", updaterequest.Text(r))
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, u)
	switch {
	case missing(err), err == nil && r.UID != "" && u.GetUID() != r.UID:
		return nil, goneError{r}
	case err != nil:
		return nil, fmt.Errorf("read trigger %s: %w", updaterequest.Text(r), err)
	}
	return u, nil
}

// missing reports whether an object does not exist. It returns false if the API server does not serve the version of its kind, which it also
// answers with the code 404: the object may exist in another version, or be served again.
func missing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Each lists objects page by page until f returns false.
func (w *Worker) Each(ctx context.Context, gvk schema.GroupVersionKind, options *client.ListOptions, f func(*unstructured.Unstructured) bool) error {
	options.Limit = 250
	gvk.Kind += "List"
	for {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(gvk)
		err := w.Client.List(ctx, page, options)
		if listwatch.GoesOn(err, &options.Continue) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s %s: %w", gvk.GroupVersion(), strings.TrimSuffix(gvk.Kind, "List"), err)
		}
		for i := range page.Items {
			if !f(&page.Items[i]) {
				return nil
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// stored returns the admission request of the UpdateRequest if it is for the trigger itself. It returns nil if the request is for
// another object or is missing.
func (t *task) stored() *kyvernov2.AdmissionRequest {
	r := t.u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
	if r == nil || r.Operation == "" {
		return nil
	}
	if r.SubResource != "" {
		return r
	}
	if r.Kind.Group != schema.FromAPIVersionAndKind(t.Trigger.APIVersion, t.Trigger.Kind).Group || r.Kind.Kind != t.Trigger.Kind {
		return nil // labels may hold any UID: the object has another kind
	}
	for _, raw := range []runtime.RawExtension{r.Object, r.OldObject} {
		metadata, _ := decode(raw)["metadata"].(map[string]any)
		if metadata == nil {
			continue
		}
		if uid, _ := metadata["uid"].(string); uid != "" && t.Trigger.UID != "" {
			if uid == string(t.Trigger.UID) {
				return r
			}
			continue
		}
		namespace, _ := metadata["namespace"].(string)
		if name, _ := metadata["name"].(string); name != "" && name == t.Trigger.Name &&
			(namespace == t.Trigger.Namespace || namespace == "" && r.Namespace == t.Trigger.Namespace) {
			return r
		}
	}
	if len(r.Object.Raw) == 0 && len(r.OldObject.Raw) == 0 && r.Name != "" && r.Name == t.Trigger.Name && t.Trigger == updaterequest.Canonical(t.u.Spec.Resource) &&
		(r.Namespace == t.Trigger.Namespace || t.Trigger.Namespace == "") {
		return r // the objects were too large to be stored
	}
	return nil
}

func decode(raw runtime.RawExtension) map[string]any {
	if len(raw.Raw) == 0 {
		return nil
	}
	v, err := value.DecodeJSON(raw.Raw)
	if err != nil {
		return nil
	}
	m, _ := v.(map[string]any)
	return m
}

// request returns the request with which the rule is evaluated: the request that caused the work, with the current state of the
// trigger. If there is no such request, it is the creation of the trigger, as in a scan.
func (w *Worker) request(ctx context.Context, t *task) (*policy.Request, error) {
	stored := t.stored()
	switch {
	case stored == nil && t.Trigger == (kyvernov2.ResourceSpec{}) && t.rule.WithoutTrigger:
		return &policy.Request{Origin: policy.FromScan, Operation: policy.Update, Conf: w.Conf()}, nil
	case stored == nil:
		object, err := t.reads.live(ctx, t.Trigger)
		if err != nil {
			return nil, err
		}
		t.Trigger = SpecOf(object)
		return w.ScanRequest(object), nil
	case stored.SubResource != "":
		if err := w.parent(ctx, t, stored); err != nil {
			return nil, err
		}
		return w.admitted(t, stored, decode(stored.Object)), nil
	case stored.Operation == "DELETE":
		object, err := t.reads.live(ctx, t.Trigger)
		switch gone := (goneError{}); {
		case asGone(err, &gone):
		case err != nil:
			return nil, err
		case object.GetDeletionTimestamp() == nil:
			return nil, notYetError{"the trigger is not deleted"}
		}
		return w.admitted(t, stored, nil), nil
	}
	object, err := t.reads.live(ctx, t.Trigger)
	if err != nil {
		if gone := (goneError{}); asGone(err, &gone) && stored.Operation == "CREATE" {
			return nil, notYetError{err.Error()}
		}
		return nil, err
	}
	if t.awaits(stored, object.GetResourceVersion()) {
		return nil, notYetError{"the update of the trigger is not stored"}
	}
	if t.Trigger.UID == "" {
		t.Trigger.UID = object.GetUID()
	}
	return w.admitted(t, stored, object.Object), nil
}

// parent reads the parent object of the task's subresource, because requests for a subresource are not stored. An evicted Pod may no
// longer exist; any other parent must exist and have the UID in the request.
func (w *Worker) parent(ctx context.Context, t *task, r *kyvernov2.AdmissionRequest) error {
	gvk, err := w.Client.RESTMapper().KindFor(schema.GroupVersionResource(r.Resource))
	if err != nil {
		return fmt.Errorf("find the kind of %s: %w", r.Resource.Resource, err)
	}
	spec := kyvernov2.ResourceSpec{Namespace: r.Namespace, Name: r.Name, UID: t.Trigger.UID}
	spec.APIVersion, spec.Kind = gvk.ToAPIVersionAndKind()
	_, err = w.live(ctx, updaterequest.Canonical(spec))
	if gone := (goneError{}); asGone(err, &gone) && r.Resource.Resource == "pods" && r.SubResource == "eviction" {
		return nil
	}
	return err
}

func asGone(err error, gone *goneError) bool {
	g, ok := err.(goneError)
	if ok {
		*gone = g
	}
	return ok
}

// awaits reports whether the task still has to wait until the API server has stored the update of an object, whose live version is given.
//
// It may be unknown whether the update has changes, because UpdateRequests do not contain the content of Secrets (updaterequest.WithoutSecrets)
// or of large objects. Then the task waits for some seconds, is executed, and is executed again if the live version changes within patience.
// A rule that changes targets is only executed once, because its patches may append to what they find.
func (t *task) awaits(r *kyvernov2.AdmissionRequest, liveVersion string) bool {
	if r.Operation != "UPDATE" || t.waited >= patience {
		return false
	}
	old, object := decode(r.OldObject), decode(r.Object)
	known := cmp.Or(versionOf(old), versionOf(object)) != ""
	if (known || old != nil && object != nil) && !unsettled(r, liveVersion) {
		return false
	}
	switch {
	case old != nil && object != nil && !updaterequest.IsSecret(object), t.waited < secretPatience, t.executedFor == liveVersion:
		return true
	case updaterequest.Mutates(t.u.Spec.RequestType):
		return known
	}
	t.executesFor = liveVersion
	return false
}

// unsettled reports whether the API server has not stored the update yet, which is so if the live object still has the version that the
// update replaces. An update without changes is never stored. It returns true if it is unknown whether there are changes.
func unsettled(r *kyvernov2.AdmissionRequest, liveVersion string) bool {
	if r.Operation != "UPDATE" {
		return false
	}
	old, object := decode(r.OldObject), decode(r.Object)
	replaces := cmp.Or(versionOf(old), versionOf(object))
	if replaces == "" || replaces != liveVersion {
		return false
	}
	return old == nil || object == nil || updaterequest.IsSecret(object) || !value.Equal(old, object)
}

// versionOf returns the resourceVersion of an object; empty if it has none.
func versionOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	version, _ := metadata["resourceVersion"].(string)
	return version
}

// disturbanceStored returns a notYetError until the API server has stored the request that changed or deleted a generated object.
// Otherwise the worker could find the object unchanged, write nothing, and miss the change that is stored afterwards.
func (w *Worker) disturbanceStored(ctx context.Context, t *task, object *unstructured.Unstructured) error {
	r := t.u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
	if r.SubResource != "" || r.Operation == "CREATE" || t.waited >= patience {
		return nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := w.Client.Get(ctx, client.ObjectKeyFromObject(object), live)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", ObjectText(object), err)
	case r.Operation == "DELETE" && (object.GetUID() == "" || live.UID == object.GetUID()): // a large object has no UID in the request
		return notYetError{"the generated object is not deleted"}
	case t.awaits(r, live.ResourceVersion):
		return notYetError{"the update of the generated object is not stored"}
	}
	return nil
}

// ScanRequest returns the request with which an existing object is evaluated.
func (w *Worker) ScanRequest(object *unstructured.Unstructured) *policy.Request {
	gvk := object.GroupVersionKind()
	r := &policy.Request{
		Origin: policy.FromScan, Operation: policy.Create, GVK: gvk, RequestGVK: gvk,
		Namespace: object.GetNamespace(), Name: object.GetName(), Object: value.Of(object.Object), Conf: w.Conf(),
	}
	// Without the resource, only policies that name kinds are sure to match; others end in an error.
	if m, err := w.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err == nil {
		r.GVR = m.Resource
	}
	return w.attach(r)
}

// admitted returns the stored request with the current state of the object.
func (w *Worker) admitted(t *task, a *kyvernov2.AdmissionRequest, object map[string]any) *policy.Request {
	info := t.u.Spec.Context.UserInfo
	r := &policy.Request{
		Origin: policy.FromAdmission, UID: string(a.UID), Operation: policy.Operation(a.Operation),
		GVK: schema.FromAPIVersionAndKind(t.Trigger.APIVersion, t.Trigger.Kind), RequestGVK: schema.GroupVersionKind(a.Kind),
		GVR: schema.GroupVersionResource(a.Resource), Subresource: a.SubResource,
		Namespace: a.Namespace, Name: a.Name, Conf: w.Conf(),
		User: &policy.User{Username: a.UserInfo.Username, UID: a.UserInfo.UID, Groups: a.UserInfo.Groups},
		ResolveRoles: func(context.Context) (policy.Roles, error) {
			return policy.Roles{Roles: info.Roles, ClusterRoles: info.ClusterRoles}, nil
		},
	}
	for k, v := range a.UserInfo.Extra {
		if r.User.Extra == nil {
			r.User.Extra = map[string][]string{}
		}
		r.User.Extra[k] = v
	}
	if a.RequestKind != nil {
		r.Asked.GVK = schema.GroupVersionKind(*a.RequestKind)
	}
	if a.RequestResource != nil {
		r.Asked.GVR, r.Asked.Subresource = schema.GroupVersionResource(*a.RequestResource), a.RequestSubResource
	}
	if object != nil {
		r.Object = value.Of(object)
	}
	if old := decode(a.OldObject); old != nil && r.Operation != policy.Create {
		r.OldObject = value.Of(old)
	}
	if options := decode(a.Options); options != nil {
		r.Options = options
	}
	r.Held = t.rule != nil && t.rule.OldContent.Conditions && kinds.IsSecret(t.Trigger.APIVersion, t.Trigger.Kind) && updaterequest.Held(t.u, t.program, t.rule.Name)
	return w.attach(r)
}

// attach adds lookups to the request for the data that the UpdateRequest does not hold.
func (w *Worker) attach(r *policy.Request) *policy.Request {
	if r.GVK.Group == "" && r.GVK.Kind == "Namespace" {
		r.ResolveNamespace = func(context.Context) (map[string]string, error) { return nil, nil }
		return r
	}
	r.ResolveNamespace = func(ctx context.Context) (map[string]string, error) { return w.Labels(ctx, r.Namespace) }
	return r
}
