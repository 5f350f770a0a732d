package rule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/loader"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
	"ephor.invalid/ephor/internal/world"
)

// A mutate rule with targets changes existing objects instead of the object of the request: it has another stage and returns work.
// Admission only records that there is work. The background controller and the command line evaluate the rule again with a plan, which
// holds the final state of every target.

// mutation returns the handler of a mutate rule: for the targets if the rule has any, otherwise for the object of the request.
func (c *compiler) mutation(r *kyvernov1.Rule, p patcher, nothing policy.Yield) handler {
	if p == nil || len(r.Mutation.Targets) == 0 {
		return onRequest(p, nothing)
	}
	targets := make([]*mutateTarget, len(r.Mutation.Targets))
	for i := range r.Mutation.Targets {
		targets[i] = c.mutateTarget(&r.Mutation.Targets[i], c.in.Path+".mutate.targets["+strconv.Itoa(i)+"]")
	}
	work := policy.Work{
		Kind:           policy.WorkMutateExisting,
		SkipBackground: skipsBackground(r),
	}
	return func(s *scope.Scope) policy.Yield {
		if !s.Plan {
			return policy.Yield{Work: []policy.Work{work}}
		}
		planned := work
		planned.Planned = true
		var results []policy.Yield
		for _, t := range targets {
			found, sub, err := t.find(s)
			if err != nil {
				results = append(results, failed("", err))
				planned.Err = errors.Join(planned.Err, err)
				continue
			}
			for _, object := range found {
				y := t.mutate(s, p, object, nothing)
				planned.Targets = append(planned.Targets, targetOutcome(object, sub, y))
				y.Object = nil // this object is the target, and the object of the request does not change
				results = append(results, y)
			}
		}
		if len(results) == 0 {
			return policy.Yield{Work: []policy.Work{planned}}
		}
		first := results[0]
		first.Also, first.Work = results[1:], []policy.Work{planned}
		return first
	}
}

// existing sets the fields of a rule with targets that differ from those of a rule that changes the object of the request.
func existing(r *kyvernov1.Rule, out *policy.Rule) {
	if r.Mutation == nil || len(r.Mutation.Targets) == 0 {
		return
	}
	out.Stage = policy.StageMutateExisting
	out.OnBackground = !skipsBackground(r)
	// A deletion is a trigger only if the match block lists deletions.
	out.SkipOnDelete = !slices.ContainsFunc(out.Targets, func(t policy.Target) bool {
		return slices.Contains(t.Operations, policy.Delete)
	})
}

// mutateTarget is one compiled entry of mutate.targets.
type mutateTarget struct {
	apiVersion, kind, namespace, name, uid targetField
	selector                               *template.Template // nil selects all labels
	reach                                  string             // the namespace of a namespaced policy, which may only change objects there
	late                                   *loader.Chain      // the entries of the rule's context that read the target
	context                                *loader.Chain
	preconditions                          *condition.Set
}

const textTargetNamespace = "This field can be ignored or should have value of the namespace where the policy is being created"

func (c *compiler) mutateTarget(in *kyvernov1.TargetResourceSpec, path string) *mutateTarget {
	t := &mutateTarget{reach: c.in.Namespace}
	if in.Kind == "" {
		c.diags.Required(path+".kind", "a target needs a kind")
		c.diags.Hint("add kind, and apiVersion before it, such as apiVersion: v1, kind: ConfigMap")
	}
	if c.in.Namespace != "" && in.Namespace != "" && in.Namespace != c.in.Namespace {
		c.diags.Errorf(path+".namespace", "%s", textTargetNamespace)
		c.diags.Hint("remove namespace, or write a ClusterPolicy to change objects of other namespaces")
	}
	field := func(name, written string) targetField {
		return targetField{name, written, c.template(written, path, "/mutate/targets/"+name)}
	}
	t.apiVersion, t.kind, t.namespace = field("apiVersion", in.APIVersion), field("kind", in.Kind), field("namespace", in.Namespace)
	t.name, t.uid = field("name", in.Name), field("uid", in.UID)
	if in.Selector != nil {
		if tree, err := selectorTree(in.Selector); err != nil {
			c.diags.Errorf(path+".selector", "%v", err)
		} else {
			t.selector = c.template(tree, path+".selector", "/mutate/targets/selector")
		}
	}
	t.late = c.shared.Late("target")
	t.context = c.context(in.Context, path+".context")
	t.preconditions = c.conditions(in.RawAnyAllConditions, path+".preconditions")
	return t
}

// selectorTree returns a label selector as JSON, in which variables can be substituted.
func selectorTree(s *metav1.LabelSelector) (any, error) {
	tree := map[string]any{}
	if s.MatchLabels != nil {
		labels := make(map[string]any, len(s.MatchLabels))
		for k, v := range s.MatchLabels {
			labels[k] = v
		}
		tree["matchLabels"] = labels
	}
	var expressions []any
	for _, e := range s.MatchExpressions {
		values := make([]any, len(e.Values))
		for i, v := range e.Values {
			values[i] = v
		}
		expressions = append(expressions, map[string]any{"key": e.Key, "operator": string(e.Operator), "values": values})
	}
	if expressions != nil {
		tree["matchExpressions"] = expressions
	}
	return tree, nil
}

// targetField is a field that selects targets. Those without a value select all.
type targetField struct {
	name, written string
	template      *template.Template
}

// resolve returns the field with the values of its variables. Data never selects more than the policy says: no value may be a wildcard, and only
// the namespace may be empty.
func (f *targetField) resolve(s *scope.Scope) (string, error) {
	text, injected, err := f.template.EvalPattern(s.QueryEnv(), s)
	var kind *template.NotStringError
	switch {
	case errors.As(err, &kind):
		return "", fmt.Errorf("failed to find the targets: the %s is not a text: %s", f.name, value.JSON(kind.Value))
	case errors.Is(err, budget.ErrExhausted):
		return "", err
	case err != nil:
		return "", patchError{textSubstitution, err}
	case injected:
		return "", fmt.Errorf("failed to find the targets: the value of a variable of the %s has a wildcard: %s", f.name, text)
	case text == "" && f.written != "" && f.name != "namespace":
		return "", fmt.Errorf("failed to find the targets: the variables of the %s give an empty text", f.name)
	}
	return text, charge(s.Env.Meter, text)
}

// wantedTarget is a target after its variables are substituted.
type wantedTarget struct {
	apiVersion, kind, subresource, namespace, name, uid, selector string
	// clusterWide selects cluster-scoped objects only: the variables of the namespace give an empty text.
	clusterWide bool
}

func (t *mutateTarget) resolve(s *scope.Scope) (w wantedTarget, err error) {
	for _, f := range []struct {
		from *targetField
		to   *string
	}{{&t.apiVersion, &w.apiVersion}, {&t.kind, &w.kind}, {&t.namespace, &w.namespace}, {&t.name, &w.name}, {&t.uid, &w.uid}} {
		if *f.to, err = f.from.resolve(s); err != nil {
			return w, err
		}
	}
	w.kind, w.subresource, _ = strings.Cut(w.kind, "/")
	w.clusterWide = w.namespace == "" && t.namespace.written != ""
	if t.reach != "" {
		w.namespace = t.reach
	}
	if t.selector != nil {
		v, err := substitute(t.selector, s)
		if err != nil {
			return w, err
		}
		if w.selector, err = selectorText(v); err != nil {
			return w, fmt.Errorf("failed to find the targets: %w", err)
		}
	}
	return w, nil
}

// selectorText returns a selector from selectorTree in text form.
func selectorText(v any) (string, error) {
	tree, _ := v.(map[string]any)
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	labels, _ := tree["matchLabels"].(map[string]any)
	for k, v := range labels {
		text, ok := v.(string)
		if !ok {
			return "", fmt.Errorf("the label %s of the selector is not a text: %s", k, value.JSON(v))
		}
		s.MatchLabels[k] = text
	}
	expressions, _ := tree["matchExpressions"].([]any)
	for _, e := range expressions {
		m, _ := e.(map[string]any)
		r := metav1.LabelSelectorRequirement{}
		r.Key, _ = m["key"].(string)
		op, _ := m["operator"].(string)
		r.Operator = metav1.LabelSelectorOperator(op)
		values, _ := m["values"].([]any)
		for _, v := range values {
			text, ok := v.(string)
			if !ok {
				return "", fmt.Errorf("a value of the selector is not a text: %s", value.JSON(v))
			}
			r.Values = append(r.Values, text)
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "", err
	}
	return sel.String(), nil
}

// find returns the objects that the target selects, and the subresource to write.
func (t *mutateTarget) find(s *scope.Scope) (found []map[string]any, subresource string, err error) {
	w, err := t.resolve(s)
	if err != nil {
		return nil, "", err
	}
	if s.Env.World.Lists == nil {
		return nil, "", fmt.Errorf("failed to find the targets: lists of resources are %w", world.ErrUnavailable)
	}
	if found, err = listTargets(s.Env.Meter.Context(), s.Env.World, w); err != nil {
		// An account that may read the object may not be allowed to list all objects.
		one, getErr := w.get(s)
		if getErr != nil {
			return nil, "", fmt.Errorf("failed to find the targets: %w", err)
		}
		found = []map[string]any{one}
	}
	if err := s.Env.Meter.Step(len(found)); err != nil {
		return nil, "", err
	}
	return slices.DeleteFunc(found, func(o map[string]any) bool { return !w.names(o) || !t.within(o) }), w.subresource, nil
}

// listTargets lists the objects of the kinds. If wildcards select several kinds, it lists them one by one. Kinds that cannot be listed have no
// objects, and an object that is served in two groups is one target.
func listTargets(ctx context.Context, in world.World, w wantedTarget) ([]map[string]any, error) {
	q := world.Query{APIVersion: w.apiVersion, Kind: w.kind, Selector: w.selector}
	if !wildcard.Has(w.namespace) {
		q.Namespace = w.namespace
	}
	if !wildcard.Has(w.name) {
		q.Name = w.name
	}
	if !wildcard.Has(w.apiVersion) && !wildcard.Has(w.kind) {
		found, err := in.Lists(ctx, q)
		return slices.Clone(found), err
	}
	if in.Kinds.Find == nil {
		return nil, fmt.Errorf("wildcards of kinds are %w", world.ErrUnavailable)
	}
	kinds, err := in.Kinds.Find(ctx, world.Kind{APIVersion: w.apiVersion, Kind: w.kind})
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	seen := map[string]bool{}
	for _, k := range kinds {
		q.APIVersion, q.Kind = k.APIVersion, k.Kind
		found, err := in.Lists(ctx, q)
		if world.NoList(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if id := world.ObjectID(k, o); !seen[id] {
				seen[id] = true
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// get reads the object that the target names without wildcards.
func (w *wantedTarget) get(s *scope.Scope) (map[string]any, error) {
	objects := s.Env.World.Objects
	if objects == nil || w.name == "" || w.selector != "" || wildcard.Has(w.apiVersion+w.kind+w.namespace+w.name) {
		return nil, world.ErrUnavailable
	}
	return objects.Get(s.Env.Meter.Context(), w.apiVersion, w.kind, w.namespace, w.name)
}

// within confines a namespaced policy to objects in its namespace. It excludes cluster-scoped objects.
func (t *mutateTarget) within(o map[string]any) bool {
	metadata, _ := o["metadata"].(map[string]any)
	return t.reach == "" || metadata["namespace"] == t.reach
}

// names reports whether the target's names match the object. The namespace of the target does not exclude cluster-scoped objects.
func (w *wantedTarget) names(o map[string]any) bool {
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	uid, _ := metadata["uid"].(string)
	return (w.name == "" || wildcard.Match(w.name, name)) &&
		(w.namespace == "" && !w.clusterWide || namespace == "" || wildcard.Match(w.namespace, namespace)) &&
		(w.uid == "" || w.uid == uid)
}

// mutate patches one target.
func (t *mutateTarget) mutate(s *scope.Scope, p patcher, object map[string]any, nothing policy.Yield) policy.Yield {
	s = t.context.Apply(t.late.Apply(s.With("target", object)))
	if t.preconditions != nil {
		if y := evaluatePreconditions(t.preconditions, s); y.Status != policy.StatusNone {
			return y
		}
	}
	return mutated(s, p, object, nothing)
}

// targetOutcome returns the plan for one target.
func targetOutcome(before map[string]any, subresource string, y policy.Yield) policy.Mutated {
	out := policy.Mutated{Before: before, Subresource: subresource, Status: y.Status, Message: y.Message}
	if y.Object != nil && y.Status == policy.StatusPass {
		out.After, _ = y.Object.Map()
	}
	return out
}
