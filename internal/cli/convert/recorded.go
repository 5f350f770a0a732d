package convert

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
)

// onRecords compares the converted rules of a classic policy with their policies on the recorded requests, prints the differences, and reports
// whether there are none. Rules that generate or change other resources are left out: their effects come after the answer.
func (o *options) onRecords(ctx context.Context, stdin io.Reader, w io.Writer, where string, original map[string]any, converted map[int][]map[string]any, rules []convert.Rule) (bool, error) {
	var before, after []*policy.Program
	for _, i := range slices.Sorted(maps.Keys(converted)) {
		one := oneRule(original, i, rules[i].Controllers)
		metadata, _ := one["metadata"].(map[string]any)
		metadata = maps.Clone(metadata)
		metadata["name"] = fmt.Sprintf("%v-%d", metadata["name"], i) // each rule is a policy of its own here
		one["metadata"] = metadata
		classic, diags := compiled(one)
		if diags.HasErrors() {
			return false, diags.Errors().Err()
		}
		if !stageOf(classic).Has(policy.StageValidate | policy.StageVerifyImages | policy.StageMutate) {
			fmt.Fprintf(w, "%s: a rule that %s is not compared on recorded requests, since its effect comes after the answer\n", where, map[bool]string{true: "generates", false: "changes other resources, or deletes them,"}[stageOf(classic) == policy.StageGenerate])
			continue
		}
		before = append(before, classic)
		for _, one := range converted[i] {
			p, diags := compiled(one)
			if diags.HasErrors() {
				return false, diags.Errors().Err()
			}
			after = append(after, p)
		}
	}
	if len(before) == 0 {
		return true, nil
	}
	c := impact.Comparison{Keep: maxShown}
	if err := o.records.Compare(ctx, false, stdin, before, after, c.Add); err != nil {
		return false, err
	}
	for _, d := range c.First {
		fmt.Fprintf(w, "%s: the results for %s differ: the classic policy gives %s, the CEL policies give %s\n  at %s\n", where, d, d.Before, d.After, d.At)
	}
	fmt.Fprintf(w, "%s: %s compared, %d of them matched, %d different\n", where, terminal.Counted(c.Requests, "recorded request", "recorded requests"), c.Matched, c.Different)
	for _, why := range c.Reasons() {
		fmt.Fprintf(w, "  not compared: %s (%s)\n", terminal.Counted(c.Unknown[why], "record", "records"), why)
	}
	if c.Matched == 0 {
		fmt.Fprintf(w, "%s: warning: no recorded request is about the policy\n", where)
	}
	return c.Different == 0 && c.Unreadable == 0, nil
}

// onlyRules returns a classic policy with some of its rules.
func onlyRules(object map[string]any, indexes []int) map[string]any {
	out := maps.Clone(object)
	spec, _ := object["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	kept := []any{}
	for _, i := range indexes {
		if i < len(rules) {
			kept = append(kept, rules[i])
		}
	}
	if len(rules) > 0 {
		spec = maps.Clone(spec)
		spec["rules"], out["spec"] = kept, spec
	}
	return out
}
