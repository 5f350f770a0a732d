package autogen_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/golden"
)

// TestExpand runs testdata/*.txtar: policy.yaml is a policy, want the rules generated from it, in order, with their
// origins.
func TestExpand(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		var p kyvernov1.ClusterPolicy
		if err := yaml.UnmarshalStrict(in.Text("policy.yaml"), &p); err != nil {
			t.Fatal(err)
		}
		before, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		got := expand(t, &p)
		if after, _ := yaml.Marshal(p); string(before) != string(after) {
			t.Errorf("Expand changed the policy:\n%s", after)
		}
		return got
	})
}

func expand(t *testing.T, p *kyvernov1.ClusterPolicy) string {
	generated, err := autogen.Expand(p.Spec.Rules, p.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, g := range generated {
		text, err := yaml.Marshal(g.Rule)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "# %s of rule %d, %s\n%s", g.Origin.Controllers, g.Parent, g.Origin.Parent, text)
	}
	if out.Len() == 0 {
		return "no rules\n"
	}
	return out.String()
}

// TestConditions tests the conditions on the policy as a whole and on each rule, by the number of generated rules.
func TestConditions(t *testing.T) {
	const podRule = `{name: pods, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {pattern: {spec: {a: b}}}}`
	for name, c := range map[string]struct {
		rules string
		want  int
	}{
		"a rule on Pods":                      {podRule, 2},
		"the version of Pod may be given":     {`{name: r, match: {any: [{resources: {kinds: [v1/Pod]}}]}, validate: {deny: {}}}`, 2},
		"a bare match block":                  {`{name: r, match: {resources: {kinds: [Pod]}}, validate: {deny: {}}}`, 2},
		"the all form":                        {`{name: r, match: {all: [{resources: {kinds: [Pod]}}]}, validate: {deny: {}}}`, 2},
		"another kind":                        {`{name: r, match: {any: [{resources: {kinds: [Service]}}]}, validate: {deny: {}}}`, 0},
		"a subresource of Pod":                {`{name: r, match: {any: [{resources: {kinds: [Pod/exec]}}]}, validate: {deny: {}}}`, 0},
		"any kind":                            {`{name: r, match: {any: [{resources: {kinds: ["*"]}}]}, validate: {deny: {}}}`, 0},
		"a rule on another kind does no harm": {podRule + `, {name: r, match: {any: [{resources: {kinds: [Service]}}]}, validate: {deny: {}}}`, 2},
		"Pod with another kind":               {`{name: r, match: {any: [{resources: {kinds: [Pod, Deployment]}}]}, validate: {deny: {}}}`, 0},
		"Pod with another kind, elsewhere":    {podRule + `, {name: r, match: {any: [{resources: {kinds: [Pod, Deployment]}}]}, validate: {deny: {}}}`, 0},
		"Pod with another kind in exclude":    {`{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {any: [{resources: {kinds: [Pod, Service]}}]}, validate: {deny: {}}}`, 0},
		"two filters with one kind each":      {`{name: r, match: {any: [{resources: {kinds: [Pod]}}, {resources: {kinds: [Service]}}]}, validate: {deny: {}}}`, 2},
		"a name":                              {`{name: r, match: {any: [{resources: {kinds: [Pod], name: x}}]}, validate: {deny: {}}}`, 0},
		"names":                               {`{name: r, match: {any: [{resources: {kinds: [Pod], names: [x]}}]}, validate: {deny: {}}}`, 0},
		"names in another rule":               {podRule + `, {name: r, match: {any: [{resources: {kinds: [Service], names: [x]}}]}, validate: {deny: {}}}`, 0},
		"names in exclude":                    {`{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {any: [{resources: {names: [x]}}]}, validate: {deny: {}}}`, 0},
		"a selector":                          {`{name: r, match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {a: b}}}}]}, validate: {deny: {}}}`, 0},
		"annotations":                         {`{name: r, match: {any: [{resources: {kinds: [Pod], annotations: {a: b}}}]}, validate: {deny: {}}}`, 0},
		"namespaces":                          {`{name: r, match: {any: [{resources: {kinds: [Pod], namespaces: [x]}}]}, validate: {deny: {}}}`, 2},
		"a namespaceSelector":                 {`{name: r, match: {any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {a: b}}}}]}, validate: {deny: {}}}`, 2},
		"a generate rule":                     {podRule + `, {name: g, match: {any: [{resources: {kinds: [Namespace]}}]}, generate: {kind: ConfigMap, name: x}}`, 0},
		"a JSON patch":                        {podRule + `, {name: m, match: {any: [{resources: {kinds: [Pod]}}]}, mutate: {patchesJson6902: "[]"}}`, 0},
		"a JSON patch in a foreach":           {podRule + `, {name: m, match: {any: [{resources: {kinds: [Pod]}}]}, mutate: {foreach: [{list: a, patchesJson6902: "[]"}]}}`, 0},
		"a JSON patch in a nested foreach":    {podRule + `, {name: m, match: {any: [{resources: {kinds: [Pod]}}]}, mutate: {foreach: [{list: a, foreach: [{list: b, patchesJson6902: "[]"}]}]}}`, 0},
		"exclude with another kind":           {`{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {any: [{resources: {kinds: [Service]}}]}, validate: {deny: {}}}`, 0},
		"exclude without kinds":               {`{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {any: [{resources: {namespaces: [x]}}]}, validate: {deny: {}}}`, 2},
		"a rule that was generated before":    {`{name: autogen-r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {deny: {}}}`, 0},
		"manifests":                           {`{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {manifests: {}}}`, 0},
		"images":                              {`{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, verifyImages: [{imageReferences: ["*"]}]}`, 2},
	} {
		var p kyvernov1.ClusterPolicy
		if err := yaml.UnmarshalStrict([]byte("spec: {rules: ["+c.rules+"]}"), &p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := autogen.Expand(p.Spec.Rules, nil)
		if err != nil || len(got) != c.want {
			t.Errorf("%s: %d rules (%v), want %d", name, len(got), err, c.want)
		}
	}
}

// TestControllersAnnotation tests that the annotation restricts the controllers.
func TestControllersAnnotation(t *testing.T) {
	var p kyvernov1.ClusterPolicy
	if err := yaml.UnmarshalStrict([]byte(`spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {deny: {}}}]}`), &p); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"":                       "autogen-r: apps/v1/DaemonSet apps/v1/Deployment batch/v1/Job apps/v1/ReplicaSet v1/ReplicationController apps/v1/StatefulSet; autogen-cronjob-r: batch/v1/CronJob; ",
		"none":                   "",
		"CronJob":                "autogen-cronjob-r: batch/v1/CronJob; ",
		"Deployment":             "autogen-r: apps/v1/Deployment; ",
		"StatefulSet,Deployment": "autogen-r: apps/v1/Deployment apps/v1/StatefulSet; ",
		"Deployment, Job":        "autogen-r: apps/v1/Deployment; ", // blanks are part of the names
		"Deployment,Nonsense":    "autogen-r: apps/v1/Deployment; ",
		"Nonsense":               "",
	} {
		got := ""
		generated, err := autogen.Expand(p.Spec.Rules, map[string]string{autogen.ControllersAnnotation: value})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range generated {
			got += g.Rule.Name + ": " + strings.Join(g.Rule.MatchResources.Any[0].ResourceDescription.Kinds, " ") + "; "
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}

// TestLongNamesAreCut tests that generated names have at most 63 characters.
func TestLongNamesAreCut(t *testing.T) {
	var p kyvernov1.ClusterPolicy
	long := strings.Repeat("a", 60)
	if err := yaml.UnmarshalStrict([]byte(`spec: {rules: [{name: `+long+`, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {deny: {}}}]}`), &p); err != nil {
		t.Fatal(err)
	}
	generated, err := autogen.Expand(p.Spec.Rules, nil)
	if err != nil || len(generated) != 2 {
		t.Fatal(generated, err)
	}
	for i, prefix := range []string{"autogen-", "autogen-cronjob-"} {
		if got, want := generated[i].Rule.Name, (prefix + long)[:63]; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if generated[i].Origin.Parent != long {
			t.Errorf("the parent is %s", generated[i].Origin.Parent)
		}
	}
}

// A long name is cut between two characters, since the parts of one are no text.
func TestLongNames(t *testing.T) {
	controllers, cronJobs := autogen.Derived(strings.Repeat("ü", 30) + "a")
	if want := "autogen-" + strings.Repeat("ü", 27); controllers != want {
		t.Errorf("%q, want %q", controllers, want)
	}
	if want := "autogen-cronjob-" + strings.Repeat("ü", 23); cronJobs != want {
		t.Errorf("%q, want %q", cronJobs, want)
	}
}
