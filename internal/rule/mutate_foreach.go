package rule

import (
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/loader"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

var mutateForeach = &Kind{
	Name:  "mutate.foreach",
	Stage: policy.StageMutate,
	Doc: "Applies patches for every element of a list, each to the result of the one before. " +
		"JSON patches start with the first element and merge patches with the last, unless `order` is set.",
	Owns:         func(r *kyvernov1.Rule) bool { return r.Mutation != nil && len(r.Mutation.ForEachMutation) > 0 },
	skipOnDelete: true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		loops := c.mutateLoops(r.Mutation.ForEachMutation, c.in.Path+".mutate.foreach", 0)
		return c.mutation(r, runLoops(loops), yieldNoElements)
	},
}

// mutateLoop is one compiled foreach entry.
type mutateLoop struct {
	list          *jmespath.Expr
	text          string // the text of list
	descending    bool
	bind          binder
	context       *loader.Chain
	preconditions *condition.Set
	// One of these three is set.
	nested []*mutateLoop
	merge  joiner
	edit   editor
}

func (c *compiler) mutateLoops(entries []kyvernov1.ForEachMutation, path string, depth int) []*mutateLoop {
	if depth > maxLoopDepth {
		c.diags.Errorf(path, "foreach is nested more than %d levels deep", maxLoopDepth)
		c.diags.Hint("take the elements of the inner lists with one query, such as spec.containers[].ports[]")
		return nil
	}
	out := make([]*mutateLoop, len(entries))
	for i := range entries {
		out[i] = c.mutateLoop(&entries[i], path+"["+strconv.Itoa(i)+"]", depth)
	}
	return out
}

func (c *compiler) mutateLoop(f *kyvernov1.ForEachMutation, path string, depth int) *mutateLoop {
	l := &mutateLoop{text: f.List, descending: f.RawPatchStrategicMerge != nil}
	if f.Order != nil {
		l.descending = *f.Order == kyvernov1.Descending
	}
	l.list = c.list(f.List, path+".list")

	// The names that the entry reads determine which of its variables are defined for each element.
	outer := c.reads
	c.reads = scope.Reads{}
	l.context = c.context(f.Context, path+".context")
	if f.AnyAllConditions != nil {
		l.preconditions = c.conditionTree(anyAllTree(f.AnyAllConditions), path+".preconditions")
		c.diags.Add(l.preconditions.Deprecated()...)
	}
	c.mutateBody(l, f, path, depth)
	l.bind = newBinder(&c.reads, c.shared, l.list, depth)
	inner := c.reads
	c.reads = outer
	c.reads.AddLoop(l.list, inner, elementNames(depth)...)
	return l
}

// mutateBody compiles the patch for an element.
func (c *compiler) mutateBody(l *mutateLoop, f *kyvernov1.ForEachMutation, path string, depth int) {
	merge, json, nested := f.RawPatchStrategicMerge != nil, f.PatchesJSON6902 != "", len(f.ForEachMutation) > 0
	switch {
	case nested && (merge || json):
		c.diags.Errorf(path, "a nested foreach cannot contain other declarations")
		c.diags.Hint("move the patch into the inner foreach, or into a foreach entry of its own")
	case merge && json:
		c.diags.Errorf(path, "only one of `patchStrategicMerge` or `patchesJson6902` is allowed")
		c.diags.Hint("split it into one foreach entry for each")
	case nested:
		l.nested = c.mutateLoops(f.ForEachMutation, path+".foreach", depth+1)
	case merge:
		if v, ok := c.decode(f.RawPatchStrategicMerge, path+".patchStrategicMerge"); ok {
			l.merge = c.strategicMerge(v, path+".patchStrategicMerge", "/patchStrategicMerge")
		}
	case json:
		l.edit = c.jsonPatch(f.PatchesJSON6902, path+".patchesJson6902", "/patchesJson6902")
	default:
		c.diags.Errorf(path, "one of `foreach`, `patchStrategicMerge`, or `patchesJson6902` must be specified")
		c.diags.Hint("patchStrategicMerge is the usual one: it has the fields to set, as in the object")
	}
}

// runLoops returns the patcher for foreach entries. Each entry is evaluated on the result of the previous one.
func runLoops(loops []*mutateLoop) patcher {
	return func(s *scope.Scope, object any) (any, error) {
		before := object
		for _, l := range loops {
			in := s
			if !identical(before, object) {
				var err error
				if in, err = withObject(s, object); err != nil {
					return nil, err
				}
			}
			var err error
			if object, err = l.run(in, object); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
}

// withObject returns a scope with another object as request.object, or as target if the rule changes targets.
func withObject(s *scope.Scope, object any) (*scope.Scope, error) {
	if _, ok, err := s.Field("target"); ok || err != nil {
		return s.With("target", object), err
	}
	return s.WithObject(object)
}

// identical reports whether two objects are the same map.
func identical(a, b any) bool {
	x, okX := a.(map[string]any)
	y, okY := b.(map[string]any)
	return okX && okY && sameMap(x, y)
}

// run patches the object once for each element.
func (l *mutateLoop) run(s *scope.Scope, object any) (any, error) {
	found, err := l.list.Search(s.QueryEnv(), s)
	if budget.Over(err) {
		return nil, err
	}
	if err != nil {
		// As in Kyverno, the text contains the cause twice.
		return nil, patchError{"failed to evaluate list " + l.text + ": JMESPath query failed: " + err.Error() + ": JMESPath query failed: ", err}
	}
	elements, ok := found.([]any)
	if !ok {
		elements = []any{found}
	}
	var made rounds // nothing else uses the object between two elements, so it may be changed in place
	for i := range elements {
		if l.descending {
			i = len(elements) - 1 - i
		}
		if elements[i] == nil {
			continue
		}
		if err := spendElement(s.Env.Meter); err != nil {
			return nil, err
		}
		if object, err = l.element(&made, l.bind.apply(s, elements[i], i), object); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// rounds is the state that the patches of one loop share.
type rounds struct {
	edits  patch.Edits
	merges patch.Merges
}

// element patches the object for the element that is defined in s.
func (l *mutateLoop) element(made *rounds, s *scope.Scope, object any) (any, error) {
	s = l.context.Apply(s)
	if l.preconditions != nil {
		verdict, err := l.preconditions.Eval(s.QueryEnv(), s)
		if err != nil {
			return nil, patchError{textElements + "failed to evaluate preconditions: ", err}
		}
		if !verdict.OK {
			return object, nil
		}
	}
	if l.nested != nil {
		return runLoops(l.nested)(s, object)
	}
	var out any
	var err error
	if l.edit != nil {
		out, err = l.edit(&made.edits, s, object)
	} else {
		out, err = l.merge(&made.merges, s, object)
	}
	if err != nil {
		return nil, patchError{textElements, err}
	}
	return out, nil
}
