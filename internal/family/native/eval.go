package native

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/ephor-dev/ephor/internal/celenv"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

// Texts of results (CEL reference §4.3).
const (
	textMutated = "mutation is successfully applied"
	textSkipped = "match conditions aren't met"
)

// eval applies the policy: once, or for each binding and each of its parameters, each to what the one before it left.
func (p *program) eval(s *policy.Scope) policy.Yield {
	before, err := s.Request.Object.Map()
	if err != nil {
		return p.failed(err)
	}
	object, applied := before, false
	once := func(param map[string]any) error {
		out, ok, err := p.apply(s, object, param)
		if err != nil {
			return err
		}
		object, applied = out, applied || ok
		return nil
	}
	if err := p.each(s, once); err != nil {
		return p.failed(err)
	}
	if !applied {
		return policy.Yield{Status: policy.StatusSkip, Message: textSkipped}
	}
	y := policy.Yield{Status: policy.StatusPass, Message: textMutated}
	if equal, err := s.Env.Meter.Equal(before, object); err != nil {
		return p.failed(err)
	} else if !equal {
		y.Object = value.Of(object)
	}
	return y
}

// failed is a policy that could not be applied; what that means for the request is for its failurePolicy.
func (p *program) failed(err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: "failed to evaluate policy: " + err.Error()}
}

// each calls apply for every binding and every parameter that the object has.
func (p *program) each(s *policy.Scope, apply func(param map[string]any) error) error {
	if len(p.bindings) == 0 {
		return apply(nil)
	}
	bound, err := p.bound(s.Env.Meter.Context(), s.Request)
	if err != nil {
		return err
	}
	for _, b := range bound {
		kind := p.object.Spec.ParamKind
		if b.params == nil || kind == nil {
			if err := apply(nil); err != nil {
				return err
			}
			continue
		}
		found, err := b.params.find(s, kind)
		if err != nil {
			return err
		}
		for _, param := range found {
			if err := apply(param); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply applies the mutations once; ok is false when the match conditions do not hold.
func (p *program) apply(s *policy.Scope, object, param map[string]any) (out map[string]any, ok bool, err error) {
	ctx := context.Context(p.compiler.CreateContext(s.Env.Meter.Context()))
	r := s.Request
	old, err := r.OldObject.Map()
	if err != nil {
		return nil, false, err
	}
	// The library must not change what others see; it copies, but nobody promises that it always will.
	var current, before runtime.Object = &unstructured.Unstructured{Object: object}, nil
	if old != nil {
		before = &unstructured.Unstructured{Object: old}
	}
	info := &user.DefaultInfo{}
	if u := r.User; u != nil {
		info = &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
	}
	attributes := admission.NewAttributesRecord(current, before, r.GVK, r.Namespace, r.Name, r.GVR, r.Subresource, admission.Operation(r.Operation), nil, r.DryRun, info)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedObject: current, VersionedOldObject: before, VersionedKind: r.RequestGVK}
	namespace, err := namespaceOf(ctx, s)
	if err != nil {
		return nil, false, err
	}
	bindings := plugincel.OptionalVariableBindings{Authorizer: authorizerOf(s)}
	if param != nil {
		bindings.VersionedParams = &unstructured.Unstructured{Object: param}
	}
	if p.conditions != nil {
		if ok, err := p.conditionsHold(ctx, r, versioned, bindings, namespace); !ok || err != nil {
			return object, false, err
		}
	}
	for _, patcher := range p.patchers {
		made, err := patcher.Patch(ctx, patch.Request{
			MatchedResource: r.GVR, VersionedAttributes: versioned, ObjectInterfaces: objectInterfaces,
			OptionalVariables: bindings, Namespace: namespace, TypeConverter: p.types,
		}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return nil, false, err
		}
		u, isObject := made.(*unstructured.Unstructured)
		if !isObject {
			return nil, false, fmt.Errorf("the mutation gave a %T", made)
		}
		versioned.VersionedObject = u
	}
	u := versioned.VersionedObject.(*unstructured.Unstructured)
	return u.Object, true, nil
}

// conditionsHold evaluates the match conditions: one that is false decides, whatever the others say; else an error does.
func (p *program) conditionsHold(ctx context.Context, r *policy.Request, versioned *admission.VersionedAttributes, bindings plugincel.OptionalVariableBindings, namespace *corev1.Namespace) (bool, error) {
	request := plugincel.CreateAdmissionRequest(versioned.Attributes, metav1.GroupVersionResource(r.GVR), metav1.GroupVersionKind(versioned.VersionedKind))
	results, _, err := p.conditions.ForInput(ctx, versioned, request, bindings, namespace, celconfig.RuntimeCELCostBudgetMatchConditions)
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

var objectInterfaces = admission.NewObjectInterfacesFromScheme(runtime.NewScheme())

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

// converter knows the types of known kinds, and finds out those of others from the objects themselves.
func converter(known managedfields.TypeConverter) managedfields.TypeConverter {
	deduced := managedfields.NewDeducedTypeConverter()
	if known == nil {
		return deduced
	}
	return either{known, deduced}
}

// either asks one converter, and another about what the first does not know.
type either struct{ first, second managedfields.TypeConverter }

// ObjectToTyped implements the library's interface.
func (e either) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	v, err := e.first.ObjectToTyped(o, options...)
	if err != nil && (runtime.IsNotRegisteredError(err) || strings.Contains(err.Error(), "no corresponding type")) { // it has no exported type
		return e.second.ObjectToTyped(o, options...)
	}
	return v, err
}

// TypedToObject implements the library's interface.
func (e either) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	return e.second.TypedToObject(v)
}
