package native

import (
	"context"
	"errors"
	"fmt"
	"maps"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/world"
)

// params is a compiled paramRef.
type params struct {
	name, namespace string
	selector        *string // in its text form
	deny            bool    // without parameters the policy is an error
}

func compileParams(ref *admissionregistrationv1.ParamRef) (*params, diag.List) {
	var diags diag.List
	if ref == nil {
		return nil, nil
	}
	p := &params{name: ref.Name, namespace: ref.Namespace, deny: true}
	switch {
	case (ref.Name == "") == (ref.Selector == nil):
		diags.Errorf("spec.paramRef", "exactly one of name and selector is needed")
	case ref.Selector != nil:
		selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
		if err != nil {
			diags.Errorf("spec.paramRef.selector", "%v", err)
			break
		}
		text := selector.String()
		p.selector = &text
	}
	if a := ref.ParameterNotFoundAction; a != nil {
		p.deny = *a == admissionregistrationv1.DenyAction
	}
	return p, diags
}

// Texts of the API server.
var (
	errNoParams = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	errNoWorld  = fmt.Errorf("parameters are %w", world.ErrUnavailable)
)

// find gives the parameters: one by name, or all that the selector selects. A namespaced kind without a namespace in the
// reference is looked for in that of the object.
func (p *params) find(s *policy.Scope, kind *admissionregistrationv1.ParamKind) ([]map[string]any, error) {
	ctx, w := s.Env.Meter.Context(), s.Env.World
	if w.Objects == nil || w.Lists == nil || w.Kinds == nil {
		return nil, errNoWorld
	}
	namespace := p.namespace
	if namespace == "" {
		if namespaced, err := w.Kinds.Namespaced(ctx, kind.APIVersion, kind.Kind); err != nil {
			return nil, err
		} else if namespaced {
			namespace = s.Request.Namespace
		}
	}
	found, err := p.read(ctx, w, kind, namespace)
	if err == nil && len(found) == 0 && p.deny {
		err = errNoParams
	}
	return found, err
}

func (p *params) read(ctx context.Context, w world.World, kind *admissionregistrationv1.ParamKind, namespace string) ([]map[string]any, error) {
	if p.selector != nil {
		found, err := w.Lists.List(ctx, world.Query{APIVersion: kind.APIVersion, Kind: kind.Kind, Namespace: namespace, Selector: *p.selector})
		return withItems(found), err
	}
	o, err := w.Objects.Get(ctx, kind.APIVersion, kind.Kind, namespace, p.name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []map[string]any{o}, nil
}

// withItems gives each of several parameters the list of all of them as items: the API server evaluates an expression for
// each, Kyverno's command line once for the list.
func withItems(found []map[string]any) []map[string]any {
	items := make([]any, len(found))
	for i, o := range found {
		items[i] = o
	}
	out := make([]map[string]any, len(found))
	for i, o := range found {
		out[i] = o
		if _, has := o["items"]; !has {
			out[i] = maps.Clone(o)
			out[i]["items"] = items
		}
	}
	return out
}
