package execute

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// reader reads triggers from the API server, and makes the requests with which their rules are evaluated. It changes nothing.
type reader struct {
	client client.Client
	// account is our own user name; empty if unknown.
	account string
	conf    func() policy.Conf
	labels  func(ctx context.Context, namespace string) (map[string]string, error)
}

// goneError means that the trigger no longer exists. It ends the work.
type goneError struct{ trigger kyvernov2.ResourceSpec }

func (e goneError) Error() string {
	return fmt.Sprintf("trigger %s with uid %s is not in the cluster; the API server may have rejected the request", updaterequest.Text(e.trigger), e.trigger.UID)
}

// live reads the object from the API server. It ignores an object with the same name but another UID.
func (x *reader) live(ctx context.Context, r kyvernov2.ResourceSpec) (*unstructured.Unstructured, error) {
	if r.Name == "" {
		return nil, fmt.Errorf("read trigger %s: it has no name, so it is unknown whether it still exists", updaterequest.Text(r))
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	err := x.client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, u)
	switch {
	case updaterequest.Missing(err), err == nil && r.UID != "" && u.GetUID() != r.UID:
		return nil, goneError{r}
	case err != nil:
		return nil, fmt.Errorf("read trigger %s: %w", updaterequest.Text(r), err)
	}
	return u, nil
}

// request returns the request with which the rule is evaluated: the request that caused the work, with the current state of the
// trigger. If there is no such request, it is the creation of the trigger, as in a scan.
func (x *reader) request(ctx context.Context, t *task) (*policy.Request, error) {
	stored := t.stored()
	switch {
	case stored == nil && t.Trigger == (kyvernov2.ResourceSpec{}) && t.rule.WithoutTrigger:
		return &policy.Request{Review: policy.Review{Origin: policy.FromScan, Operation: policy.Update, Conf: x.conf()}}, nil
	case stored == nil:
		object, err := t.reads.live(ctx, t.Trigger)
		if err != nil {
			return nil, err
		}
		t.Trigger = updaterequest.SpecOf(object)
		return x.scanRequest(object), nil
	case stored.SubResource != "":
		if err := x.parent(ctx, t, stored); err != nil {
			return nil, err
		}
		return x.admitted(t, stored, decode(stored.Object)), nil
	case stored.Operation == "DELETE":
		object, err := t.reads.live(ctx, t.Trigger)
		switch {
		case isGone(err):
		case err != nil:
			return nil, err
		case object.GetDeletionTimestamp() == nil:
			return nil, notYetError{"the trigger is not deleted"}
		}
		return x.admitted(t, stored, nil), nil
	}
	object, err := t.reads.live(ctx, t.Trigger)
	if err != nil {
		if isGone(err) && stored.Operation == "CREATE" {
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
	return x.admitted(t, stored, object.Object), nil
}

// parent reads the parent object of the task's subresource, because requests for a subresource are not stored. An evicted Pod may no
// longer exist; any other parent must exist and have the UID in the request.
func (x *reader) parent(ctx context.Context, t *task, r *kyvernov2.AdmissionRequest) error {
	gvk, err := x.client.RESTMapper().KindFor(schema.GroupVersionResource(r.Resource))
	if err != nil {
		return fmt.Errorf("find the kind of %s: %w", r.Resource.Resource, err)
	}
	spec := kyvernov2.ResourceSpec{Namespace: r.Namespace, Name: r.Name, UID: t.Trigger.UID}
	spec.APIVersion, spec.Kind = gvk.ToAPIVersionAndKind()
	_, err = x.live(ctx, updaterequest.Canonical(spec))
	if isGone(err) && r.Resource.Resource == "pods" && r.SubResource == "eviction" {
		return nil
	}
	return err
}

func isGone(err error) bool {
	_, gone := err.(goneError)
	return gone
}

// disturbanceStored returns a notYetError until the API server has stored the request that changed or deleted a generated object.
// Otherwise the worker could find the object unchanged, write nothing, and miss the change that is stored afterwards.
func (x *reader) disturbanceStored(ctx context.Context, t *task, object *unstructured.Unstructured) error {
	r := t.u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
	if r.SubResource != "" || r.Operation == "CREATE" || t.waited >= patience {
		return nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := x.client.Get(ctx, client.ObjectKeyFromObject(object), live)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", updaterequest.ObjectText(object), err)
	case r.Operation == "DELETE" && (object.GetUID() == "" || live.UID == object.GetUID()): // a large object has no UID in the request
		return notYetError{"the generated object is not deleted"}
	case t.awaits(r, live.ResourceVersion):
		return notYetError{"the update of the generated object is not stored"}
	}
	return nil
}

// scanRequest returns the request with which an existing object is evaluated.
func (x *reader) scanRequest(object *unstructured.Unstructured) *policy.Request {
	gvk := object.GroupVersionKind()
	r := &policy.Request{Review: policy.Review{
		Origin: policy.FromScan, Trigger: true, Operation: policy.Create, GVK: gvk, RequestGVK: gvk,
		Namespace: object.GetNamespace(), Name: object.GetName(), Object: value.Of(object.Object), Conf: x.conf(),
	}}
	// Without the resource, only policies that name kinds are sure to match; others end in an error.
	if m, err := x.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err == nil {
		r.GVR = m.Resource
	}
	return x.attach(r)
}

// admitted returns the stored request with the current state of the object.
func (x *reader) admitted(t *task, a *kyvernov2.AdmissionRequest, object map[string]any) *policy.Request {
	info := t.u.Spec.Context.UserInfo
	r := &policy.Request{Review: policy.Review{
		Origin: policy.FromAdmission, UID: string(a.UID), Operation: policy.Operation(a.Operation),
		GVK: schema.FromAPIVersionAndKind(t.Trigger.APIVersion, t.Trigger.Kind), RequestGVK: schema.GroupVersionKind(a.Kind),
		GVR: schema.GroupVersionResource(a.Resource), Subresource: a.SubResource,
		Namespace: a.Namespace, Name: a.Name, Conf: x.conf(),
		User: &policy.User{Username: a.UserInfo.Username, UID: a.UserInfo.UID, Groups: a.UserInfo.Groups},
		ResolveRoles: func(context.Context) (policy.Roles, error) {
			return policy.Roles{Roles: info.Roles, ClusterRoles: info.ClusterRoles}, nil
		},
	}}
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
	return x.attach(r)
}

// attach adds lookups to the request for the data that the UpdateRequest does not hold.
func (x *reader) attach(r *policy.Request) *policy.Request {
	if r.GVK.Group == "" && r.GVK.Kind == "Namespace" {
		r.ResolveNamespace = func(context.Context) (map[string]string, error) { return nil, nil }
		return r
	}
	r.ResolveNamespace = func(ctx context.Context) (map[string]string, error) { return x.labels(ctx, r.Namespace) }
	return r
}
