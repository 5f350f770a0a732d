package autogen

import (
	"encoding/json"
	"fmt"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/value"
)

// Generated is a rule that was generated for pod controllers.
type Generated struct {
	Rule   kyvernov1.Rule
	Parent int // index of the authored rule
	Origin policy.Origin
}

// Expand returns the rules for pod controllers that follow from the authored rules of a policy: for each authored
// rule first autogen, then autogen-cronjob. annotations are those of the policy. The result is empty when the policy
// is not eligible or its annotation disables autogen. The error reports a rule that is invalid after it is
// rewritten.
func Expand(rules []kyvernov1.Rule, annotations map[string]string) ([]Generated, error) {
	selectors, withCronJob := controllers(annotations)
	if len(selectors) == 0 && !withCronJob || !eligible(rules) {
		return nil, nil
	}
	var out []Generated
	for i := range rules {
		r := &rules[i]
		if !eligibleRule(r) {
			continue
		}
		if len(selectors) > 0 {
			if err := generate(&out, templated, r, i, selectors); err != nil {
				return nil, err
			}
		}
		if withCronJob {
			if err := generate(&out, cronJob, r, i, []string{cronJobSelector}); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func generate(out *[]Generated, f *family, r *kyvernov1.Rule, index int, selectors []string) error {
	made, ok, err := f.rule(r, selectors)
	if err != nil {
		return fmt.Errorf("rule %s: writing the rule for pod controllers: %w", r.Name, err)
	}
	if ok {
		*out = append(*out, Generated{Rule: made, Parent: index, Origin: policy.Origin{
			Parent: r.Name, Controllers: f.prefix[:len(f.prefix)-1],
		}})
	}
	return nil
}

// rule generates the rule for one family of controllers; ok is false when no part of the rule applies to them.
func (f *family) rule(r *kyvernov1.Rule, selectors []string) (made kyvernov1.Rule, ok bool, err error) {
	tree, err := toTree(r)
	if err != nil {
		return made, false, err
	}
	// Match blocks contain no variables; matchBlock rewrites them as types.
	delete(tree, "match")
	delete(tree, "exclude")
	if !f.body(tree, r) {
		return made, false, nil
	}
	text := f.text
	if r.Validation != nil && r.Validation.CEL != nil {
		text = f.cel
	}
	for key, v := range tree {
		if key != "name" {
			tree[key] = rewriteText(v, text)
		}
	}
	tree["name"] = f.ruleName(r.Name)
	if made, err = fromTree(tree); err != nil {
		return made, false, err
	}
	made.MatchResources = f.matchBlock(r.MatchResources, selectors)
	if r.ExcludeResources != nil {
		ex := f.matchBlock(*r.ExcludeResources, selectors)
		made.ExcludeResources = &ex
	}
	return made, true, nil
}

// body wraps the parts that describe a Pod. It reports whether autogen supports the kind of rule.
func (f *family) body(tree map[string]any, r *kyvernov1.Rule) bool {
	switch {
	case r.Validation != nil:
		return f.validation(tree["validate"].(map[string]any), r.Validation)
	case r.Mutation != nil:
		return f.mutation(tree)
	}
	return len(r.VerifyImages) > 0 // image extraction handles all kinds itself
}

func (f *family) validation(validate map[string]any, v *kyvernov1.Validation) bool {
	if message, ok := validate["message"].(string); ok {
		validate["message"] = f.shiftReferences(message)
	}
	known := v.Deny != nil || v.PodSecurity != nil || v.CEL != nil || len(v.ForEachValidation) > 0
	if pattern, ok := validate["pattern"]; ok {
		validate["pattern"], known = f.wrap(f.shiftAbsolute(pattern)), true
	}
	if patterns, ok := validate["anyPattern"].([]any); ok {
		for i := range patterns {
			patterns[i] = f.wrap(f.shiftAbsolute(patterns[i]))
		}
		known = true
	}
	return known && v.Manifests == nil
}

// mutation wraps patches. It drops targets, the order of a foreach and nested loops.
func (f *family) mutation(tree map[string]any) bool {
	mutate := tree["mutate"].(map[string]any)
	if patch, ok := mutate["patchStrategicMerge"]; ok {
		tree["mutate"] = map[string]any{"patchStrategicMerge": f.wrap(patch)}
		return true
	}
	loops, _ := mutate["foreach"].([]any)
	var out []any
	for _, l := range loops {
		loop := l.(map[string]any)
		patch, ok := loop["patchStrategicMerge"]
		if !ok {
			continue
		}
		loop["patchStrategicMerge"] = f.wrap(patch)
		delete(loop, "order")
		delete(loop, "foreach")
		out = append(out, loop)
	}
	tree["mutate"] = map[string]any{"foreach": out}
	return len(out) > 0
}

// matchBlock replaces kinds: for CronJob in every filter, for the other controllers in the filters that name Pod.
func (f *family) matchBlock(m kyvernov1.MatchResources, selectors []string) kyvernov1.MatchResources {
	replace := func(d kyvernov1.ResourceDescription) kyvernov1.ResourceDescription {
		if hasPod(d.Kinds) || f == cronJob && !d.IsZero() {
			d.Kinds = selectors
		}
		return d
	}
	filters := func(in kyvernov1.ResourceFilters) kyvernov1.ResourceFilters {
		out := make(kyvernov1.ResourceFilters, len(in))
		for i, filter := range in {
			filter.ResourceDescription = replace(filter.ResourceDescription)
			if f == cronJob {
				filter.ResourceDescription.Kinds = selectors
			}
			out[i] = filter
		}
		return out
	}
	if m.Any != nil {
		m.Any = filters(m.Any)
	}
	if m.All != nil {
		m.All = filters(m.All)
	}
	m.ResourceDescription = replace(m.ResourceDescription)
	return m
}

func toTree(r *kyvernov1.Rule) (map[string]any, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

// fromTree decodes the rule in the same way as the authored one, which distinguishes a null from an absent field.
func fromTree(tree map[string]any) (kyvernov1.Rule, error) {
	var r kyvernov1.Rule
	diags := strict.Decode(tree, &r)
	return r, diags.Err()
}
