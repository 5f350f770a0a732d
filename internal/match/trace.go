package match

import (
	"context"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/trace"
)

// attribute describes what a step tests, to explain why a rule matched or did not.
type attribute struct {
	field string // path below the filter, such as resources.kinds
	want  any    // the value in the policy
	got   func(context.Context, *policy.Request) (any, error)
}

// traceStep records a step. It is called only for `ephor explain`.
func (s *step) traceStep(ctx context.Context, r *policy.Request, path string, ok bool, err error) {
	c := trace.Clause{Path: path + "." + s.field, Want: s.want, Holds: ok && err == nil}
	got, unknown := s.got(ctx, r)
	c.Got = got
	if err == nil {
		err = unknown
	}
	if err != nil {
		c.Error = err.Error()
	}
	r.Trace.Clause(c)
}

func gotOperation(_ context.Context, r *policy.Request) (any, error) {
	return string(r.EffectiveOperation()), nil
}

// gotKind returns the request's kind in the form of a kind selector.
func gotKind(_ context.Context, r *policy.Request) (any, error) {
	kind := r.GVK.Version + "/" + r.GVK.Kind
	if r.GVK.Group != "" {
		kind = r.GVK.Group + "/" + kind
	}
	if r.Subresource != "" {
		kind += "/" + r.Subresource
	}
	return kind, nil
}

func gotNamespace(_ context.Context, r *policy.Request) (any, error) {
	if r.IsNamespace() {
		return r.ObjectName()
	}
	return r.Namespace, nil
}

func gotName(_ context.Context, r *policy.Request) (any, error) { return r.ObjectName() }

func gotAnnotations(_ context.Context, r *policy.Request) (any, error) {
	annotations, err := r.Annotations()
	return map[string]any(annotations), err
}

func gotLabels(_ context.Context, r *policy.Request) (any, error) {
	labels, err := r.Labels()
	return map[string]any(labels), err
}

func gotNamespaceLabels(ctx context.Context, r *policy.Request) (any, error) {
	return r.NamespaceLabels(ctx)
}

func gotSubject(_ context.Context, r *policy.Request) (any, error) {
	groups := make([]any, len(r.User.Groups))
	for i, g := range r.User.Groups {
		groups[i] = g
	}
	return map[string]any{"username": r.User.Username, "groups": groups}, nil
}

func gotRoles(ctx context.Context, r *policy.Request) (any, error) {
	roles, err := r.Roles(ctx)
	return roles.Roles, err
}

func gotClusterRoles(ctx context.Context, r *policy.Request) (any, error) {
	roles, err := r.Roles(ctx)
	return roles.ClusterRoles, err
}
