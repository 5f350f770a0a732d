package updaterequest

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/policy"
)

// TestUndone shows what is undone when policies change. The rules that are compared went through the ledger.
func TestUndone(t *testing.T) {
	rule := func(name string, g policy.Generation, target string) *policy.Rule {
		return &policy.Rule{Name: name, Stage: policy.StageGenerate, Generation: &g, Grants: []policy.Grant{{APIVersion: "v1", Kind: "ConfigMap", Name: target, Verbs: []string{"get"}}}}
	}
	sync := policy.Generation{Synchronize: true}
	entries := func(rules ...*policy.Rule) []entry {
		return entriesOf(catalog.NewStatic([]*policy.Program{{Kind: "ClusterPolicy", Name: "p", Rules: rules}}))
	}
	once, orphan := rule("once", policy.Generation{}, "a"), rule("orphan", policy.Generation{Synchronize: true, Orphan: true}, "a")
	copies := func(selector string) *policy.Rule {
		r := rule("copies", sync, "")
		r.Grants = append(r.Grants, policy.Grant{APIVersion: "v1", Kind: "ConfigMap", Source: true, Selector: selector})
		return r
	}
	mixed := copies("a")
	mixed.Name, mixed.Grants = "mixed", append(mixed.Grants, policy.Grant{APIVersion: "v1", Kind: "Secret", Name: "a"})
	before := entries(rule("sync", sync, "a"), once, orphan, copies("a"), mixed)
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	var stored []entry
	if err := json.Unmarshal(text, &stored); err != nil || !reflect.DeepEqual(stored, before) {
		t.Fatalf("%v: %s", err, text)
	}
	for name, c := range map[string]struct {
		after []entry
		gone  bool // the policy
		want  []string
	}{
		"nothing":       {after: before},
		"policy gone":   {gone: true, want: []string{"delete copies", "delete mixed", "delete sync"}},
		"rules gone":    {want: []string{"delete all but copies of mixed", "delete all but copies of sync"}},
		"other targets": {after: entries(rule("sync", sync, "b"), rule("once", policy.Generation{}, "b"), orphan, copies("a"), mixed), want: []string{"release once", "release sync"}},
		"other sources": {after: entries(rule("sync", sync, "a"), once, orphan, copies("b"), mixed), want: []string{"release copies"}},
		"no longer":     {after: entries(rule("sync", policy.Generation{}, "a"), once, orphan, copies("a"), mixed)},
		"copies gone":   {after: entries(rule("sync", sync, "a"), once, orphan), want: []string{"delete all but copies of mixed"}},
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
			got = append(got, what+x.Rule)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Kinds in variables are looked for among all that are served and fit.
func TestKindsOf(t *testing.T) {
	served := []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}}
	var asked []policy.Target
	w := &Worker{WorkerOptions: WorkerOptions{Find: func(t policy.Target) ([]schema.GroupVersionKind, error) {
		asked = append(asked, t)
		return served, nil
	}}}
	for _, c := range []struct {
		grant   policy.Grant
		asked   policy.Target
		guessed bool
	}{
		{policy.Grant{APIVersion: "v1", Kind: "ConfigMap"}, policy.Target{}, false},
		{policy.Grant{APIVersion: "v1", Kind: "{{request.object.data.kind}}"}, policy.Target{Version: "v1", Kind: "*"}, true},
		{policy.Grant{APIVersion: "{{a}}/{{b}}", Kind: "Config{{ c }}"}, policy.Target{Group: "*", Version: "*", Kind: "Config*"}, true},
		{policy.Grant{APIVersion: "apps/{{b}}", Kind: "Deployment"}, policy.Target{Group: "apps", Version: "*", Kind: "Deployment"}, true},
		{policy.Grant{APIVersion: "v1/{{kind}}", Kind: "v1/{{kind}}"}, policy.Target{Version: "v1", Kind: "*"}, true}, // cloneList
		{policy.Grant{APIVersion: "{{kind}}", Kind: "{{kind}}"}, policy.Target{Group: "*", Version: "*", Kind: "*"}, true},
	} {
		asked = nil
		got, err := w.kindsOf(&policy.Rule{Grants: []policy.Grant{c.grant, {APIVersion: "v1", Kind: "Pod", Source: true}}})
		if err != nil || len(got) == 0 || got[0].guessed != c.guessed {
			t.Errorf("%+v: %v, %v", c.grant, got, err)
		}
		if c.guessed && (len(asked) != 1 || !reflect.DeepEqual(asked[0], c.asked)) {
			t.Errorf("%+v: asked for %+v, want %+v", c.grant, asked, c.asked)
		}
	}
}

// An object that the rule makes since it was changed is not taken for one of before.
func TestFits(t *testing.T) {
	object := func(kind, namespace, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		return u
	}
	rule := &policy.Rule{Grants: []policy.Grant{
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "{{request.namespace}}", Name: "{{request.object.metadata.name}}-{{random('x')}}-made"},
		{APIVersion: "v1", Kind: "Secret", Source: true},
	}}
	for _, c := range []struct {
		u    *unstructured.Unstructured
		want bool
	}{
		{object("ConfigMap", "any", "a-b-made"), true}, {object("ConfigMap", "any", "a"), false}, {object("Secret", "any", "a-b-made"), false},
	} {
		if got := fits(rule, c.u); got != c.want {
			t.Errorf("%s: %v", objectText(c.u), got)
		}
	}
}
