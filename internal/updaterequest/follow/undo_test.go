package follow

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// TestUndone lists the work that changes of policies require. The compared rules were stored in the record and read from it.
func TestUndone(t *testing.T) {
	rule := func(name string, g policy.Generation, target string) *policy.Rule {
		return &policy.Rule{Name: name, Stage: policy.StageGenerate, WorkPlan: policy.WorkPlan{Generation: &g, Grants: []policy.Grant{{APIVersion: "v1", Kind: "ConfigMap", Name: target, Verbs: []string{"get"}}}}}
	}
	sync := policy.Generation{Synchronize: true}
	entries := func(rules ...*policy.Rule) []origin.Definition {
		return origin.Definitions(catalog.NewStatic([]*policy.Program{{Kind: "ClusterPolicy", Name: "p", Rules: rules}}))
	}
	once, orphan := rule("once", policy.Generation{}, "a"), rule("orphan", policy.Generation{Synchronize: true, Orphan: true}, "a")
	copies := func(selector string) *policy.Rule {
		r := rule("copies", sync, "")
		r.Grants = append(r.Grants, policy.Grant{APIVersion: "v1", Kind: "ConfigMap", Source: true, Selector: selector})
		return r
	}
	mixed := copies("a")
	mixed.Name, mixed.Grants = "mixed", append(mixed.Grants, policy.Grant{APIVersion: "v1", Kind: "Secret", Name: "a"})
	exact := func(name string, keeps bool, target string) *policy.Rule {
		return rule(name, policy.Generation{Synchronize: true, Exact: true, KeepCopies: keeps}, target)
	}
	before := entries(rule("sync", sync, "a"), once, orphan, copies("a"), mixed, exact("exact", false, "a"), exact("keeps", true, "a"))
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	var stored []origin.Definition
	if err := json.Unmarshal(text, &stored); err != nil || !reflect.DeepEqual(stored, before) {
		t.Fatalf("%v: %s", err, text)
	}
	for name, c := range map[string]struct {
		after []origin.Definition
		gone  bool // whether the policy was deleted
		want  []string
	}{
		"nothing":       {after: before},
		"policy gone":   {gone: true, want: []string{"delete all but copies of keeps", "delete copies", "delete exact", "delete mixed", "delete sync"}},
		"rules gone":    {want: []string{"delete all but copies of exact", "delete all but copies of keeps", "delete all but copies of mixed", "delete all but copies of sync"}},
		"other targets": {after: entries(rule("sync", sync, "b"), rule("once", policy.Generation{}, "b"), orphan, copies("a"), mixed, exact("exact", false, "b"), exact("keeps", true, "b")), want: []string{"release once", "release sync"}},
		"other sources": {after: entries(rule("sync", sync, "a"), once, orphan, copies("b"), mixed, exact("exact", false, "a"), exact("keeps", true, "a")), want: []string{"release copies"}},
		"no longer":     {after: entries(rule("sync", policy.Generation{}, "a"), once, orphan, copies("a"), mixed, exact("exact", false, "a"), exact("keeps", true, "a"))},
		"copies gone":   {after: entries(rule("sync", sync, "a"), once, orphan, exact("exact", false, "a"), exact("keeps", true, "a")), want: []string{"delete all but copies of mixed"}},
	} {
		var got []string
		for _, x := range undone(stored, c.after, func(catalog.ID) bool { return !c.gone }) {
			what := "delete "
			switch {
			case x.release:
				what = "release "
			case x.keepCopies:
				what = "delete all but copies of "
			}
			got = append(got, what+x.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
