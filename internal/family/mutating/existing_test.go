package mutating_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family/familytest"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/world"
)

// stored is a cluster with ConfigMaps.
type stored []map[string]any

func (s stored) Get(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
	for _, o := range s {
		if m := o["metadata"].(map[string]any); r.Kind.Kind == "ConfigMap" && m["namespace"] == r.Namespace && m["name"] == r.Name {
			return o, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, r.Name)
}

func (s stored) List(_ context.Context, q world.Query) (out []map[string]any, err error) {
	for _, o := range s {
		if q.Namespace == "" || o["metadata"].(map[string]any)["namespace"] == q.Namespace {
			out = append(out, o)
		}
	}
	return out, nil
}

func (stored) Namespaced(context.Context, world.Kind) (bool, error) { return true, nil }

func (stored) Resource(_ context.Context, k world.Kind) (string, error) {
	if k.Kind != "ConfigMap" {
		return "", errors.New("no such kind: " + k.Kind)
	}
	return "configmaps", nil
}

func (stored) Served(_ context.Context, r world.ResourceRequest) ([]world.Resource, error) {
	switch r.Plural {
	case "events": // served in two groups
		return []world.Resource{{Kind: world.Kind{APIVersion: "v1", Kind: "Event"}, Plural: r.Plural}, {Kind: world.Kind{APIVersion: "events.k8s.io/v1", Kind: "Event"}, Plural: r.Plural}}, nil
	case "configmaps":
	default:
		return nil, nil
	}
	return []world.Resource{{Kind: world.Kind{APIVersion: "v1", Kind: "ConfigMap"}, Plural: r.Plural}}, nil
}

func (stored) Labels(_ context.Context, name world.NamespaceRequest) (map[string]string, error) {
	return map[string]string{"kubernetes.io/metadata.name": string(name)}, nil
}

func stores(namespace, name, value string, labels map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": value},
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": namespace + "-" + name, "labels": labels},
	}
}

// The targets of a policy are the current objects that its constraints select or its expression returns. A namespaced policy has no
// targets in other namespaces, and a failed lookup is an error.
func TestExisting(t *testing.T) {
	cluster := stored{
		stores("a", "one", "v", map[string]any{"listed": "yes"}), stores("a", "two", "off", map[string]any{"listed": "yes"}),
		stores("a", "other", "v", nil), stores("b", "one", "v", map[string]any{"listed": "yes"}),
	}
	const rules = "resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [%s]}]"
	for name, c := range map[string]struct {
		kind, targets, conditions string
		bare, blind               bool
		filters                   string // resourceFilters
		want                      string // the changed objects, or the error
	}{
		"listed":            {targets: fmt.Sprintf("{objectSelector: {matchLabels: {listed: 'yes'}}, "+rules+"}", "configmaps"), conditions: "object.data.k != 'off'", want: "a/one=CREATE b/one=CREATE"},
		"by namespace":      {targets: fmt.Sprintf("{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: b}}, "+rules+"}", "configmaps"), want: "b/one=CREATE"},
		"of a namespace":    {kind: "Namespaced", targets: fmt.Sprintf("{"+rules+"}", "configmaps"), conditions: "object.metadata.name == 'one'", want: "a/one=CREATE"},
		"for the policy":    {bare: true, targets: fmt.Sprintf("{"+rules+"}", "configmaps"), conditions: "object.metadata.name == 'one'", want: "a/one=UPDATE b/one=UPDATE"},
		"filtered":          {filters: "[ConfigMap,b,*]", targets: fmt.Sprintf("{"+rules+"}", "configmaps"), conditions: "object.metadata.name == 'one'", want: "a/one=CREATE"},
		"named, filtered":   {filters: "[*,b,one]", targets: `{expression: "{'items': ['a', 'b'].map(n, {'apiVersion': dyn('v1'), 'kind': dyn('ConfigMap'), 'metadata': dyn({'namespace': n, 'name': 'one'})})}"}`, want: "a/one=CREATE"},
		"in two groups":     {targets: "{resourceRules: [{apiGroups: ['*'], apiVersions: [v1], operations: ['*'], resources: [events]}]}", conditions: "object.metadata.name == 'one'", want: "a/one=CREATE b/one=CREATE"},
		"not served":        {targets: fmt.Sprintf("{"+rules+"}", "widgets"), want: ""},
		"not readable":      {blind: true, targets: fmt.Sprintf("{"+rules+"}", "configmaps"), want: "failed to evaluate policy: failed to fetch targets: lists of resources are not available"},
		"named":             {targets: `{expression: "{'apiVersion': dyn('v1'), 'kind': dyn('ConfigMap'), 'metadata': dyn({'namespace': 'a', 'name': string(object.data.k)}), 'data': dyn({'k': 'off'})}"}`, conditions: "object.data.k == 'v'", want: "a/other=CREATE"},
		"named, items":      {targets: `{expression: "{'items': ['one', 'none'].map(n, {'apiVersion': dyn('v1'), 'kind': dyn('ConfigMap'), 'metadata': dyn({'namespace': 'b', 'name': n})})}"}`, want: "b/one=CREATE"},
		"named elsewhere":   {kind: "Namespaced", targets: `{expression: "{'apiVersion': dyn('v1'), 'kind': dyn('ConfigMap'), 'metadata': dyn({'namespace': 'b', 'name': 'one'})}"}`, want: ""},
		"null":              {targets: `{expression: "dyn(null)"}`, want: ""},
		"no resource":       {targets: `{expression: "dyn('one')"}`, want: "failed to evaluate policy: failed to fetch targets: the expression returns a string; want a resource, or an object with items"},
		"an unknown kind":   {targets: `{expression: "{'apiVersion': dyn('v1'), 'kind': dyn('Widget'), 'metadata': dyn({'name': 'x'})}"}`, want: "failed to evaluate policy: failed to fetch targets: no such kind: Widget"},
		"its trigger":       {targets: fmt.Sprintf("{"+rules+"}", "configmaps"), conditions: "trigger.object.data.k == 'other' && trigger.oldObject == {} && object.data.k == 'off' && variables.seen == 'other'", want: "a/two=CREATE"},
		"no trigger":        {bare: true, targets: fmt.Sprintf("{"+rules+"}", "configmaps"), conditions: "trigger.object == {} && object.data.k == 'off'", want: "a/two=UPDATE"},
		"another object":    {targets: fmt.Sprintf("{"+rules+"}", "configmaps"), conditions: "object.spec == 'x'", want: "no such key: spec\nIn this expression, object is the target v1 ConfigMap a/one; the object that triggered the policy is trigger.object."},
		"condition in vain": {targets: fmt.Sprintf("{"+rules+"}", "configmaps"), conditions: "object.nothing == 'x'", want: "no such key: nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := ""
			if c.conditions != "" {
				conditions = "\n  targetMatchConditions: [{name: c, expression: \"" + c.conditions + "\"}]"
			}
			var tree map[string]any
			if err := yaml.Unmarshal([]byte(`
apiVersion: policies.kyverno.io/v1
kind: `+c.kind+`MutatingPolicy
metadata: {name: p, namespace: a}
spec:
  evaluation: {mutateExisting: {enabled: true}}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}
  targetMatchConstraints: `+c.targets+conditions+`
  variables: [{name: seen, expression: "trigger.object.data.k"}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data/by', value: string(request.operation)}]"}
`), &tree); err != nil {
				t.Fatal(err)
			}
			program, diags := compile.One(compile.Object{Value: tree})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			req := familytest.Request(stores("a", "t", "other", nil))
			if c.bare {
				req = &policy.Request{Review: policy.Review{Origin: policy.FromScan, Operation: policy.Update}}
			}
			conf, diags := settings.Parse(map[string]string{"resourceFilters": c.filters})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			req.Conf = policy.ConfOf(conf)
			out := engine.Eval(t.Context(), engine.Input{
				Selections: []policy.Selection{{Program: program, Rules: program.Rules}}, Request: req, Stages: policy.StageMutateExisting, Plan: true,
				Root: world.RootFunc(func(world.Reach) world.World {
					if c.blind {
						return world.World{}
					}
					return world.World{
						Objects: cluster.Get, Lists: cluster.List, Namespaces: world.Namespaces{Labels: cluster.Labels},
						Kinds: world.Kinds{Namespaced: cluster.Namespaced, Resource: cluster.Resource, Served: cluster.Served},
					}
				}),
			})
			var got []string
			for _, w := range out.Work {
				for _, m := range w.Targets {
					meta := m.Before["metadata"].(map[string]any)
					switch {
					case m.After != nil:
						got = append(got, fmt.Sprintf("%s/%s=%s", meta["namespace"], meta["name"], m.After["data"].(map[string]any)["by"]))
					case m.Status == policy.StatusError:
						got = append(got, m.Message)
					}
				}
				if w.Err != nil {
					got = append(got, w.Err.Error())
				}
			}
			slices.Sort(got)
			if all := strings.Join(got, " "); (c.want == "" || c.filters != "") && all != c.want || !strings.Contains(all, c.want) {
				t.Errorf("got %q, want %q; results %v", all, c.want, out.Results)
			}
		})
	}
}
