package native

import (
	"context"
	"errors"

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/ephor-dev/ephor/internal/celenv"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/world"
)

// input is what expressions see of a request.
type input struct {
	ctx        context.Context
	attributes *admission.VersionedAttributes
	bindings   plugincel.OptionalVariableBindings
	namespace  *corev1.Namespace
	request    *policy.Request
}

// input is the request with the object and one parameter, nil for none.
func (p *subject) input(s *policy.Scope, object, param map[string]any) (*input, error) {
	ctx := context.Context(p.compiler.CreateContext(s.Env.Meter.Context()))
	r := s.Request
	old, err := r.OldObject.Map()
	if err != nil {
		return nil, err
	}
	// The library may not change shared values; it copies them, but its documentation does not promise that.
	var current, before runtime.Object // nil, as for the API server, when there is none
	if object != nil {
		current = &unstructured.Unstructured{Object: object}
	}
	if old != nil {
		before = &unstructured.Unstructured{Object: old}
	}
	info := &user.DefaultInfo{}
	if u := r.User; u != nil {
		info = &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
	}
	attributes := admission.NewAttributesRecord(current, before, r.GVK, r.Namespace, r.Name, r.GVR, r.Subresource, admission.Operation(r.Operation), nil, r.DryRun, info)
	in := &input{
		ctx: ctx, request: r,
		attributes: &admission.VersionedAttributes{Attributes: attributes, VersionedObject: current, VersionedOldObject: before, VersionedKind: r.RequestGVK},
		bindings:   plugincel.OptionalVariableBindings{Authorizer: authorizerOf(s)},
	}
	if in.namespace, err = namespaceOf(ctx, s); err != nil {
		return nil, err
	}
	if param != nil {
		in.bindings.VersionedParams = &unstructured.Unstructured{Object: param}
	}
	return in, nil
}

// evaluate evaluates expressions on the input.
func (in *input) evaluate(e plugincel.ConditionEvaluator, budget int64) ([]plugincel.EvaluationResult, error) {
	r := in.request
	request := plugincel.CreateAdmissionRequest(in.attributes.Attributes, metav1.GroupVersionResource(r.GVR), metav1.GroupVersionKind(in.attributes.VersionedKind))
	results, _, err := e.ForInput(in.ctx, in.attributes, request, in.bindings, in.namespace, budget)
	return results, err
}

// conditionsHold evaluates the match conditions: one that is false decides, whatever the others say; else an error does.
func (p *subject) conditionsHold(in *input) (bool, error) {
	if p.conditions == nil {
		return true, nil
	}
	results, err := in.evaluate(p.conditions, celconfig.RuntimeCELCostBudgetMatchConditions)
	if err != nil {
		return false, err
	}
	var errs []error
	for _, result := range results {
		if result.Error != nil {
			errs = append(errs, result.Error)
		} else if result.EvalResult != types.True {
			return false, nil
		}
	}
	return len(errs) == 0, errors.Join(errs...)
}

// authorizerOf answers for the rights of the requester; nil where they are not known.
func authorizerOf(s *policy.Scope) *celenv.Authorizer {
	r, access := s.Request, s.Env.World.Access
	if access == nil || r.User == nil {
		return nil
	}
	return &celenv.Authorizer{
		Access: access, Username: r.User.Username, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra,
		Resource: r.GVR, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
}

// namespaceOf is the Namespace of the object; nil for what lies outside of namespaces.
func namespaceOf(ctx context.Context, s *policy.Scope) (*corev1.Namespace, error) {
	r := s.Request
	if r.Namespace == "" || r.GVK.Group == "" && r.GVK.Kind == "Namespace" {
		return nil, nil
	}
	out := &corev1.Namespace{}
	out.Name = r.Namespace
	reader, ok := s.Env.World.Namespaces.(world.NamespaceObjects)
	if !ok {
		var err error
		out.Labels, err = r.NamespaceLabels(ctx)
		return out, err
	}
	o, err := reader.Namespace(ctx, r.Namespace)
	if err != nil {
		return nil, err
	}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(o, out)
}
