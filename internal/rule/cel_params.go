package rule

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/world"
)

// params finds the parameters of a rule (language reference §4.10).
type params struct {
	apiVersion, kind string
	name, namespace  string
	selector         *string // in its text form
	deny             bool    // without parameters the rule is an error
}

// params compiles paramKind and paramRef; nil when the rule has none.
func (c *compiler) params(kind *admissionregistrationv1.ParamKind, ref *admissionregistrationv1.ParamRef, path string) *params {
	if kind == nil && ref == nil {
		return nil
	}
	if kind == nil {
		c.diags.Errorf(path+".paramKind", "cel.paramKind is required")
		kind = &admissionregistrationv1.ParamKind{APIVersion: "-", Kind: "-"} // the reference may have mistakes of its own
	}
	if kind.APIVersion == "" {
		c.diags.Errorf(path+".paramKind.apiVersion", "cel.paramKind.apiVersion is required")
	}
	if kind.Kind == "" {
		c.diags.Errorf(path+".paramKind.kind", "cel.paramKind.kind is required")
	}
	if ref == nil {
		c.diags.Errorf(path+".paramRef", "cel.paramRef is required")
		return nil
	}
	p := &params{apiVersion: kind.APIVersion, kind: kind.Kind, name: ref.Name, namespace: ref.Namespace}
	switch {
	case ref.Name == "" && ref.Selector == nil:
		c.diags.Errorf(path+".paramRef", "one of cel.paramRef.name or cel.paramRef.selector must be set")
	case ref.Name != "" && ref.Selector != nil:
		c.diags.Errorf(path+".paramRef", "paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Selector != nil:
		selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
		if err != nil {
			c.diags.Errorf(path+".paramRef.selector", "%v", err)
			break
		}
		text := selector.String()
		p.selector = &text
	}
	if ref.ParameterNotFoundAction == nil {
		c.diags.Errorf(path+".paramRef.parameterNotFoundAction", "cel.paramRef.parameterNotFoundAction is required")
	} else {
		p.deny = *ref.ParameterNotFoundAction == admissionregistrationv1.DenyAction
	}
	c.reads.Needs.Lookups = true
	return p
}

// Texts of the API server.
var (
	errNamespaceForbidden = errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	errNamespaceMissing   = errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	errNoParams           = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	errNoObjects          = fmt.Errorf("parameters are %w", world.ErrUnavailable)
)

// find gives the parameters: one by name, or all that the selector selects. A rule that is allowed to find none gets none.
func (p *params) find(s *policy.Scope) ([]map[string]any, error) {
	w, ctx := s.Env.World, s.Env.Meter.Context()
	if w.Kinds == nil {
		return nil, errNoObjects
	}
	namespaced, err := w.Kinds.Namespaced(ctx, p.apiVersion, p.kind)
	if err != nil {
		return nil, err
	}
	namespace := ""
	switch {
	case !namespaced && p.namespace != "":
		return nil, errNamespaceForbidden
	case namespaced && p.namespace != "":
		namespace = p.namespace
	case namespaced && s.Request.Namespace == "":
		return nil, errNamespaceMissing
	case namespaced:
		namespace = s.Request.Namespace
	}
	found, err := p.read(ctx, w, namespace)
	if err == nil && len(found) == 0 && p.deny {
		err = errNoParams
	}
	return found, err
}

func (p *params) read(ctx context.Context, w world.World, namespace string) ([]map[string]any, error) {
	if p.selector != nil {
		if w.Lists == nil {
			return nil, errNoObjects
		}
		return w.Lists.List(ctx, world.Query{APIVersion: p.apiVersion, Kind: p.kind, Namespace: namespace, Selector: *p.selector})
	}
	if w.Objects == nil {
		return nil, errNoObjects
	}
	o, err := w.Objects.Get(ctx, p.apiVersion, p.kind, namespace, p.name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []map[string]any{o}, nil
}
