package rule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rule"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
	"ephor.invalid/ephor/internal/world"
)

// fakeLists are the existing objects.
type fakeLists []map[string]any

func (l fakeLists) List(_ context.Context, q world.Query) ([]map[string]any, error) {
	sel, err := labels.Parse(q.Selector)
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	for _, o := range l {
		metadata := o["metadata"].(map[string]any)
		set := labels.Set{}
		if m, ok := metadata["labels"].(map[string]any); ok {
			for k, v := range m {
				set[k] = v.(string)
			}
		}
		if o["apiVersion"] == q.APIVersion && o["kind"] == q.Kind && (q.Namespace == "" || metadata["namespace"] == q.Namespace) && (q.Name == "" || metadata["name"] == q.Name) && sel.Matches(set) {
			out = append(out, o)
		}
	}
	return out, nil
}

// Find returns the kinds of the objects.
func (l fakeLists) Find(_ context.Context, wanted world.Kind) ([]world.Kind, error) {
	var out []world.Kind
	for _, o := range l {
		k := world.Kind{APIVersion: o["apiVersion"].(string), Kind: o["kind"].(string)}
		if wildcard.Match(wanted.APIVersion, k.APIVersion) && wildcard.Match(wanted.Kind, k.Kind) && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out, nil
}

const existingObjects = `
- {apiVersion: v1, kind: Secret, metadata: {name: a, namespace: x, uid: u1, labels: {tier: one}}}
- {apiVersion: v1, kind: Secret, metadata: {name: ab, namespace: x, labels: {tier: two}}}
- {apiVersion: v1, kind: Secret, metadata: {name: a, namespace: z}}
- {apiVersion: v1, kind: Node, metadata: {name: node}}
`

// A mutate rule with targets returns work and never changes the trigger. The plan holds the final state of every target.
func TestMutateExisting(t *testing.T) {
	var lists fakeLists
	for _, o := range golden.Decode[[]any](t, []byte(existingObjects)) {
		lists = append(lists, o.(map[string]any))
	}
	trigger := golden.Decode[map[string]any](t, []byte(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}, data: {k: v}}`))
	const patch = "\n  patchStrategicMerge: {metadata: {annotations: {from: '{{ request.object.data.k }}', +(own): '{{ target.metadata.name }}'}}}"
	for _, c := range []struct{ name, mutate, want string }{
		{"all of a kind", "targets: [{apiVersion: v1, kind: Secret}]" + patch, "x/a own=a, x/ab own=ab, z/a own=a"},
		{"by names", "targets: [{apiVersion: v1, kind: Secret, namespace: x, name: 'a*'}]" + patch, "x/a own=a, x/ab own=ab"},
		{"by wildcard of namespaces", "targets: [{apiVersion: v1, kind: Secret, namespace: '?', name: a}]" + patch, "x/a own=a, z/a own=a"},
		{"by variables", "targets: [{apiVersion: v1, kind: Secret, namespace: '{{ request.namespace }}', name: '{{ request.object.metadata.name }}'}]" + patch, "x/a own=a"},
		{"by wildcards of kinds", "targets: [{apiVersion: '*', kind: '*o*'}]" + patch, "/node own=node"},
		{"by selector", "targets: [{apiVersion: v1, kind: Secret, selector: {matchLabels: {tier: two}}}]" + patch, "x/ab own=ab"},
		{"by uid", "targets: [{apiVersion: v1, kind: Secret, uid: u1}]" + patch, "x/a own=a"},
		{"several targets and a subresource", "targets: [{apiVersion: v1, kind: Node/status}, {apiVersion: v1, kind: Secret, namespace: z}]" + patch,
			"/node/status own=node, z/a own=a"},
		{"context and preconditions of a target", `targets:
  - apiVersion: v1
    kind: Secret
    context: [{name: tier, variable: {jmesPath: target.metadata.labels.tier, default: none}}]
    preconditions: {all: [{key: "{{ tier }}", operator: NotEquals, value: two}]}` + patch, "x/a own=a, x/ab skip: preconditions not met, z/a own=a"},
		{"nothing to change", "targets: [{apiVersion: v1, kind: Node}]\n  patchStrategicMerge: {metadata: {name: node}}", "/node skip: no patches applied"},
		{"a patch that fails", "targets: [{apiVersion: v1, kind: Node}]\n  patchStrategicMerge: {metadata: {labels: {a: '{{ target.absent }}'}}}",
			`/node error: variable substitution failed: failed to resolve target.absent at path /mutate/patchStrategicMerge/metadata/labels/a: JMESPath query failed: Unknown key "absent" in path`},
		{"no target", "targets: [{apiVersion: v1, kind: Pod}]" + patch, ""},
		{"foreach over the target", `targets: [{apiVersion: v1, kind: Node}]
  foreach:
  - list: "['p', 'q']"
    patchesJson6902: "- {op: add, path: \"/metadata/annotations/{{ element }}\", value: \"{{ length(target.metadata) }}\"}"`, "/node p=1 q=1"},
		{"own value", "targets: [{apiVersion: v1, kind: Node}]\n  patchStrategicMerge: {metadata: {name: \"{{ @ }}-{{ to_upper('{{@}}') }}\"}}", "/node name=node-NODE"},
		{"the rule's context reads the target", "targets: [{apiVersion: v1, kind: Secret, namespace: x}]\n  patchStrategicMerge: {metadata: {annotations: {own: '{{ both }}'}}}",
			"x/a own=a,one, x/ab own=a,two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compileRule(t, []byte(`name: r
match: {any: [{resources: {kinds: [ConfigMap]}}]}
context:
- {name: tier, variable: {jmesPath: "target.metadata.labels.tier"}}
- {name: both, variable: {jmesPath: "join(',', ['{{ request.object.metadata.name }}', tier])"}}
mutate:
  `+c.mutate), nil)
			if r.Stage != policy.StageMutateExisting || !r.SkipOnDelete {
				t.Errorf("stage %v, deletions %v", r.Stage, !r.SkipOnDelete)
			}
			s := call(request(map[string]any{"object": trigger}), r)
			if y := r.Eval(s); y.Status != policy.StatusNone || len(y.Work) != 1 || y.Work[0].Planned || !y.Work[0].SkipBackground || y.Work[0].Kind != policy.WorkMutateExisting {
				t.Errorf("without a plan: %+v", y)
			}
			s = call(request(map[string]any{"object": trigger}), r)
			s.Plan, s.Env.World = true, world.World{Lists: lists.List, Kinds: world.Kinds{Find: lists.Find}}
			y := r.Eval(s)
			if len(y.Work) != 1 || !y.Work[0].Planned || y.Work[0].Err != nil || y.Object != nil {
				t.Fatalf("%+v", y)
			}
			results := 1 + len(y.Also)
			if y.Status == policy.StatusNone {
				results = 0
			}
			if results != len(y.Work[0].Targets) {
				t.Errorf("%d results for %d targets", results, len(y.Work[0].Targets))
			}
			var got []string
			for _, m := range y.Work[0].Targets {
				got = append(got, targetText(m))
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("\n got %s\nwant %s", strings.Join(got, ", "), c.want)
			}
		})
	}
	r := compileRule(t, []byte("name: r\nmatch: {any: [{resources: {kinds: [ConfigMap], operations: [DELETE]}}]}\nmutate:\n  targets: [{apiVersion: v1, kind: Node}]"+patch), nil)
	if r.SkipOnDelete {
		t.Error("a rule that asks for deletions has to see them")
	}
	s := call(request(map[string]any{"object": trigger}), r)
	s.Plan = true
	if y := r.Eval(s); y.Status != policy.StatusError || len(y.Work) != 1 || !errors.Is(y.Work[0].Err, world.ErrUnavailable) {
		t.Errorf("without a world: %+v", y)
	}
}

// Values of variables never select more targets than the policy says: they are no wildcards, and are not left out when they are empty.
func TestMutateExistingByValuesOfVariables(t *testing.T) {
	var lists fakeLists
	for _, o := range golden.Decode[[]any](t, []byte(existingObjects)) {
		lists = append(lists, o.(map[string]any))
	}
	const variable = `"{{ request.object.data.v }}"`
	for _, c := range []struct{ target, value, want string }{
		{"kind: Secret, namespace: x, name: " + variable, "a", "x/a own=a"},
		{"kind: Secret, namespace: x, name: " + variable, "*", "failed to find the targets: the value of a variable of the name has a wildcard: *"},
		{"kind: Secret, namespace: x, name: " + variable, "", "failed to find the targets: the variables of the name give an empty text"},
		{`kind: Secret, namespace: x, name: "a{{ request.object.data.v }}*"`, "b", "x/ab own=ab"},
		{`kind: Secret, namespace: x, name: "a{{ request.object.data.v }}"`, "?", "failed to find the targets: the value of a variable of the name has a wildcard: a?"},
		{"kind: Secret, namespace: " + variable, "z", "z/a own=a"},
		{"kind: Secret, namespace: " + variable, "*", "failed to find the targets: the value of a variable of the namespace has a wildcard: *"},
		{"kind: Secret, namespace: " + variable, "", ""},
		{"kind: Node, namespace: " + variable, "", "/node own=node"},
		{"kind: " + variable, "Node", "/node own=node"},
		{"kind: " + variable, "N*", "failed to find the targets: the value of a variable of the kind has a wildcard: N*"},
		{`kind: Secret, namespace: z, name: "{{ authored }}"`, "", "z/a own=a"},
	} {
		r := compileRule(t, []byte(`name: r
match: {any: [{resources: {kinds: [ConfigMap]}}]}
context: [{name: authored, variable: {value: "?"}}]
mutate:
  targets: [{apiVersion: v1, `+c.target+`}]
  patchStrategicMerge: {metadata: {annotations: {own: "{{ target.metadata.name }}"}}}`), nil)
		s := call(request(map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"v": c.value}}}), r)
		s.Plan, s.Env.World = true, world.World{Lists: lists.List, Kinds: world.Kinds{Find: lists.Find}}
		y := r.Eval(s)
		var got []string
		for _, m := range y.Work[0].Targets {
			got = append(got, targetText(m))
		}
		if err := y.Work[0].Err; err != nil {
			got = append(got, err.Error())
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s, %q:\n got %s\nwant %s", c.target, c.value, text, c.want)
		}
	}
}

// A namespaced policy changes nothing outside its namespace, whatever the World returns.
func TestMutateExistingStaysInNamespace(t *testing.T) {
	var lists leakyLists
	for _, o := range golden.Decode[[]any](t, []byte(existingObjects)) {
		lists = append(lists, o.(map[string]any))
	}
	var authored kyvernov1.Rule
	strict.Decode(golden.Decode[map[string]any](t, []byte(`
name: r
match: {any: [{resources: {kinds: [ConfigMap]}}]}
mutate:
  targets: [{apiVersion: v1, kind: Secret}, {apiVersion: v1, kind: Node}, {apiVersion: v1, kind: Secret, namespace: "{{ request.object.data.namespace }}"}]
  patchStrategicMerge: {metadata: {annotations: {own: x}}}
`)), &authored)
	_, diags := rule.Compile(&authored, rule.Input{Path: "rules[0]", Namespace: "x"})
	if !diags.HasErrors() || !strings.Contains(diags[0].Summary, "This field can be ignored") {
		t.Errorf("a variable namespace in a namespaced policy: %v", diags)
	}
	authored.Mutation.Targets = authored.Mutation.Targets[:2]
	r, diags := rule.Compile(&authored, rule.Input{Path: "rules[0]", Namespace: "x"})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	s := call(request(map[string]any{"object": golden.Decode[map[string]any](t, []byte(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}}`))}), r)
	s.Plan, s.Env.World = true, world.World{Lists: lists.List}
	var got []string
	for _, m := range r.Eval(s).Work[0].Targets {
		got = append(got, targetText(m))
	}
	if strings.Join(got, ", ") != "x/a own=x, x/ab own=x" {
		t.Errorf("%v", got)
	}
}

// leakyLists return more objects than requested.
type leakyLists fakeLists

func (l leakyLists) List(ctx context.Context, q world.Query) ([]map[string]any, error) {
	return fakeLists(l).List(ctx, world.Query{APIVersion: q.APIVersion, Kind: q.Kind})
}

// namedLists only answers queries for one name, as the API server does for a right that is limited by resourceNames.
type namedLists struct {
	fakeLists
	name string
}

func (l namedLists) List(ctx context.Context, q world.Query) ([]map[string]any, error) {
	if q.Name != l.name {
		return nil, errors.New("forbidden")
	}
	return l.fakeLists.List(ctx, q)
}

// A target with a name and no namespace is found with the right to list objects of that name.
func TestMutateExistingListsByName(t *testing.T) {
	var lists fakeLists
	for _, o := range golden.Decode[[]any](t, []byte(existingObjects)) {
		lists = append(lists, o.(map[string]any))
	}
	for target, want := range map[string]string{
		"name: ab":    "x/ab own=x",
		"name: a*":    "forbidden",
		"name: other": "forbidden",
	} {
		var authored kyvernov1.Rule
		strict.Decode(golden.Decode[map[string]any](t, []byte(`
name: r
match: {any: [{resources: {kinds: [ConfigMap]}}]}
mutate:
  targets: [{apiVersion: v1, kind: Secret, `+target+`}]
  patchStrategicMerge: {metadata: {annotations: {own: x}}}
`)), &authored)
		r, diags := rule.Compile(&authored, rule.Input{Path: "rules[0]"})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		s := call(request(map[string]any{"object": golden.Decode[map[string]any](t, []byte(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}}`))}), r)
		s.Plan, s.Env.World = true, world.World{Lists: namedLists{lists, "ab"}.List}
		work, got := r.Eval(s).Work[0], []string{}
		for _, m := range work.Targets {
			got = append(got, targetText(m))
		}
		if work.Err != nil {
			got = append(got, work.Err.Error())
		}
		if len(got) != 1 || !strings.HasSuffix(got[0], want) {
			t.Errorf("%s: %q, want %s", target, got, want)
		}
	}
}

func targetText(m policy.Mutated) string {
	metadata := m.Before["metadata"].(map[string]any)
	ns, _ := metadata["namespace"].(string)
	out := fmt.Sprintf("%s/%s", ns, metadata["name"])
	if m.Subresource != "" {
		out += "/" + m.Subresource
	}
	if m.After == nil {
		return out + " " + m.Status.String() + ": " + m.Message
	}
	after := m.After["metadata"].(map[string]any)
	if annotations, ok := after["annotations"].(map[string]any); ok {
		for _, k := range []string{"own", "p", "q"} {
			if v, ok := annotations[k]; ok {
				out += fmt.Sprintf(" %s=%s", k, strings.Trim(value.JSON(v), `"`))
			}
		}
		return out
	}
	return out + " name=" + after["name"].(string)
}

// Preconditions that read the content of the old object count as they were at admission, if the request says that they held.
func TestHeldPreconditions(t *testing.T) {
	for _, c := range []struct {
		name, key  string
		held       bool
		conditions bool
		want       policy.Status
	}{
		{"read again", "{{ request.oldObject.data.a }}", false, true, policy.StatusError},
		{"held", "{{ request.oldObject.data.a }}", true, true, policy.StatusNone},
		{"nothing old", "{{ request.object.metadata.name }}", true, false, policy.StatusSkip},
		{"old metadata", "{{ request.oldObject.metadata.name }}", true, false, policy.StatusSkip},
	} {
		r := compileRule(t, []byte(`
name: r
match: {any: [{resources: {kinds: [Secret]}}]}
preconditions: {all: [{key: "`+c.key+`", operator: Equals, value: x}]}
mutate:
  targets: [{apiVersion: v1, kind: ConfigMap, name: web, namespace: shop}]
  patchStrategicMerge: {data: {k: v}}
`), nil)
		if r.OldContent.Conditions != c.conditions || r.OldContent.Elsewhere {
			t.Errorf("%s: %+v", c.name, r.OldContent)
		}
		secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "tls"}}
		req := request(map[string]any{"operation": "UPDATE", "object": secret, "oldObject": secret})
		req.Held = c.held
		y := r.Eval(verifyScope(t, r, nil, req, policy.StageMutateExisting))
		if y.Status != c.want || c.want == policy.StatusNone && len(y.Work) != 1 {
			t.Errorf("%s: %s %q, %d work", c.name, y.Status, y.Message, len(y.Work))
		}
	}
}

// A target that cannot be found does not keep the others from being changed.
func TestMutateExistingBesideMissingKinds(t *testing.T) {
	var lists fakeLists
	for _, o := range golden.Decode[[]any](t, []byte(existingObjects)) {
		lists = append(lists, o.(map[string]any))
	}
	missing := errors.New("the server does not serve it")
	r := compileRule(t, []byte(`name: r
match: {any: [{resources: {kinds: [ConfigMap]}}]}
mutate:
  targets: [{apiVersion: example.com/v1, kind: Gone}, {apiVersion: v1, kind: Node}, {apiVersion: example.com/v1, kind: Lost}]
  patchStrategicMerge: {metadata: {annotations: {own: x}}}
`), nil)
	s := call(request(map[string]any{"object": golden.Decode[map[string]any](t, []byte(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}}`))}), r)
	s.Plan, s.Env.World = true, world.World{Lists: func(ctx context.Context, q world.Query) ([]map[string]any, error) {
		if q.APIVersion == "example.com/v1" {
			return nil, fmt.Errorf("%s: %w", q.Kind, missing)
		}
		return lists.List(ctx, q)
	}}
	work := r.Eval(s).Work[0]
	if len(work.Targets) != 1 || targetText(work.Targets[0]) != "/node own=x" {
		t.Errorf("%v", work.Targets)
	}
	if text := fmt.Sprint(work.Err); !errors.Is(work.Err, missing) || !strings.Contains(text, "Gone") || !strings.Contains(text, "Lost") {
		t.Error(text)
	}
}

// Wildcards also match kinds that cannot be listed, such as reviews, and kinds that share their objects, such as Events of two groups. The first have
// no objects, and each object of the others is one target.
func TestMutateExistingByWildcardsOfKinds(t *testing.T) {
	for name, c := range map[string]struct {
		target, want string
		fails        bool
	}{
		"wildcard": {"{apiVersion: '*', kind: '*'}", "x/e own=x", false},
		"by name":  {"{apiVersion: v1, kind: Binding}", "", true},
		"refused":  {"{apiVersion: '*', kind: 'Secre*'}", "", true},
	} {
		r := compileRule(t, []byte(`name: r
match: {any: [{resources: {kinds: [ConfigMap]}}]}
mutate:
  targets: [`+c.target+`]
  patchStrategicMerge: {metadata: {annotations: {own: x}}}
`), nil)
		s := call(request(map[string]any{"object": golden.Decode[map[string]any](t, []byte(`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}}`))}), r)
		kinds := []world.Kind{{APIVersion: "v1", Kind: "Binding"}, {APIVersion: "v1", Kind: "Event"}, {APIVersion: "events.k8s.io/v1", Kind: "Event"}, {APIVersion: "gone.example.com/v1", Kind: "Gone"}}
		if c.target == "{apiVersion: '*', kind: 'Secre*'}" {
			kinds = []world.Kind{{APIVersion: "v1", Kind: "Secret"}}
		}
		s.Plan, s.Env.World = true, world.World{
			Kinds: world.Kinds{Find: func(context.Context, world.Kind) ([]world.Kind, error) { return kinds, nil }},
			Lists: func(_ context.Context, q world.Query) ([]map[string]any, error) {
				resource := schema.GroupResource{Resource: strings.ToLower(q.Kind)}
				switch q.Kind {
				case "Binding":
					return nil, apierrors.NewMethodNotSupported(resource, "list")
				case "Gone":
					return nil, apierrors.NewNotFound(resource, "")
				case "Secret":
					return nil, apierrors.NewForbidden(resource, "", errors.New("no right"))
				}
				return []map[string]any{{"apiVersion": q.APIVersion, "kind": q.Kind, "metadata": map[string]any{"name": "e", "namespace": "x", "uid": "u"}}}, nil
			},
		}
		work := r.Eval(s).Work[0]
		var got []string
		for _, m := range work.Targets {
			got = append(got, targetText(m))
		}
		if strings.Join(got, ", ") != c.want || (work.Err != nil) != c.fails {
			t.Errorf("%s: %q, want %s: %v", name, got, c.want, work.Err)
		}
	}
}
