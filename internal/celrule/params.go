package celrule

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// Params is a compiled reference to parameters.
type Params struct {
	// TakeNamespace: the namespace of the reference is used for every kind; otherwise it is an error for a cluster-scoped kind.
	TakeNamespace bool

	name, namespace string
	selector        *string // in text form
	deny            bool    // missing parameters are an error of the rule
}

// CompileParams compiles a reference. The error is that of its selector. Without parameterNotFoundAction, missing
// parameters are an error of the rule.
func CompileParams(ref *admissionregistrationv1.ParamRef) (*Params, error) {
	p := &Params{name: ref.Name, namespace: ref.Namespace, deny: true}
	if a := ref.ParameterNotFoundAction; a != nil {
		p.deny = *a == admissionregistrationv1.DenyAction
	}
	if ref.Selector == nil {
		return p, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return p, err
	}
	text := selector.String()
	p.selector = &text
	return p, nil
}

// Selects reports whether the reference selects parameters by their labels.
func (p *Params) Selects() bool { return p.selector != nil }

// Error texts of the API server.
var (
	errNamespaceForbidden = errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	errNamespaceMissing   = errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	errNoParams           = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	errNoObjects          = fmt.Errorf("parameters are %w", world.ErrUnavailable)
)

// Find returns the parameters of a kind: one by name, or all that the selector selects. It returns none if none exist and
// the rule allows that. A namespaced kind is looked up in the namespace of the reference, otherwise in
// that of the object.
func (p *Params) Find(c *policy.Call, kind admissionregistrationv1.ParamKind) ([]map[string]any, error) {
	w, ctx := c.World, c.Context()
	if w.Kinds.Namespaced == nil {
		return nil, errNoObjects
	}
	namespace, err := p.namespaceFor(c, kind)
	if err != nil {
		return nil, err
	}
	found, err := p.read(ctx, w, kind, namespace)
	if err == nil && len(found) == 0 && p.deny {
		err = errNoParams
	}
	return found, err
}

// namespaceFor returns the namespace in which parameters of the kind are looked up.
func (p *Params) namespaceFor(c *policy.Call, kind admissionregistrationv1.ParamKind) (string, error) {
	if p.TakeNamespace && p.namespace != "" {
		return p.namespace, nil
	}
	namespaced, err := c.World.Kinds.Namespaced(c.Context(), world.Kind(kind))
	var unknown *world.NoKindError
	switch {
	case errors.As(err, &unknown):
		return "", fmt.Errorf("paramKind kind `%s, Kind=%s` not known", kind.APIVersion, kind.Kind)
	case err != nil:
		return "", err
	case !namespaced && p.namespace != "":
		return "", errNamespaceForbidden
	case namespaced && p.namespace != "":
		return p.namespace, nil
	case namespaced && c.Request.Namespace == "":
		return "", errNamespaceMissing
	case namespaced:
		return c.Request.Namespace, nil
	}
	return "", nil
}

func (p *Params) read(ctx context.Context, w world.World, kind admissionregistrationv1.ParamKind, namespace string) ([]map[string]any, error) {
	if p.selector != nil {
		if w.Lists == nil {
			return nil, errNoObjects
		}
		return w.Lists(ctx, world.Query{APIVersion: kind.APIVersion, Kind: kind.Kind, Namespace: namespace, Selector: *p.selector})
	}
	if w.Objects == nil {
		return nil, errNoObjects
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
