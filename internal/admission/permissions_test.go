package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/world"
)

// grantedTo is an authorizer: lines of `user verb resource[/sub] [namespace|*] [name]` that are allowed.
type grantedTo []string

func (g grantedTo) Allowed(_ context.Context, r world.AccessRequest) (bool, string, error) {
	if r.Username == "nobody" {
		return false, "", errors.New("the API server is gone")
	}
	if r.Username == "system:serviceaccount:kyverno:background" && !slices.Contains(r.Groups, "system:serviceaccounts:kyverno") {
		return false, "", fmt.Errorf("groups %q", r.Groups)
	}
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	for _, line := range g {
		f := strings.Fields(line)
		verbs := strings.Split(f[1], ",")
		if f[0] == r.Username && (slices.Contains(verbs, r.Verb) || verbs[0] == "*") && (f[2] == resource || f[2] == "*") &&
			(f[3] == "*" || f[3] == r.Namespace) && (len(f) < 5 || f[4] == r.Name) {
			return true, "", nil
		}
	}
	return false, "", nil
}

func reviewOf(t *testing.T, object, old string, user string) []byte {
	t.Helper()
	raw := func(text string) json.RawMessage {
		b, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	operation := "CREATE"
	if old != "" {
		operation = "UPDATE"
	}
	request := map[string]any{
		"uid": "u", "operation": operation, "userInfo": map[string]any{"username": user},
		"kind":     map[string]any{"group": "kyverno.io", "version": "v1", "kind": "ClusterPolicy"},
		"resource": map[string]any{"group": "kyverno.io", "version": "v1", "resource": "clusterpolicies"},
		"object":   raw(object),
	}
	if old != "" {
		request["oldObject"] = raw(old)
	}
	b, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The background controller must have the rights for the work of every policy, and the author of a namespaced policy, too (S7 in
// docs/security/threat-model.md). The messages are Kyverno's.
func TestS7RightsForWork(t *testing.T) {
	const (
		background = "system:serviceaccount:kyverno:background"
		cluster    = `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, %s}]}}`
		namespaced = `{apiVersion: kyverno.io/v1, kind: Policy, metadata: {name: p, namespace: a}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, %s}]}}`
		make       = `generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: a, data: {data: {k: v}}}`
		makeAny    = `generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: "{{request.object.metadata.name}}", synchronize: true, data: {data: {k: v}}}`
		loop       = `generate: {foreach: [{list: "['x']", apiVersion: v1, kind: ConfigMap, name: made, namespace: a, data: {data: {k: v}}}]}`
		cloned     = `generate: {apiVersion: v1, kind: Secret, name: made, namespace: a, clone: {name: source, namespace: a}}`
		listed     = `generate: {namespace: a, cloneList: {namespace: a, kinds: [v1/Secret, v1/ConfigMap]}}`
		binding    = `generate: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, name: made, namespace: a, data: {roleRef: {kind: ClusterRole, name: cluster-admin}}}`
		role       = `generate: {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, name: made, namespace: a, data: {rules: []}}`
		strange    = `generate: {apiVersion: example.com/v1, kind: Strange, name: made, namespace: a, data: {spec: {}}}`
		statuses   = `generate: {apiVersion: v1, kind: ConfigMap/status, name: made, namespace: a, data: {data: {k: v}}}`
		variable   = `generate: {apiVersion: v1, kind: "{{request.object.data.kind}}", name: made, namespace: a, data: {data: {k: v}}}`
		anyRole    = `generate: {apiVersion: rbac.authorization.k8s.io/v1, kind: "{{request.object.data.kind}}", name: made, namespace: a, data: {roleRef: {kind: ClusterRole, name: cluster-admin}}}`
		policies   = `generate: {apiVersion: kyverno.io/v1, kind: Policy, name: made, namespace: a, data: {spec: {}}}`
		cleanups   = `mutate: {targets: [{apiVersion: kyverno.io/v2, kind: CleanupPolicy, name: one}], patchStrategicMerge: {spec: {schedule: "* * * * *"}}}`
		change     = `mutate: {targets: [{apiVersion: v1, kind: Secret, name: one, namespace: a}], patchStrategicMerge: {metadata: {labels: {a: b}}}}`
		changeTwo  = `mutate: {targets: [{apiVersion: v1, kind: Pod/status, namespace: "{{ request.namespace }}"}, {apiVersion: v1, kind: Secret}, {apiVersion: v1, kind: "{{ x }}"}], patchStrategicMerge: {metadata: {labels: {a: b}}}, }, context: [{name: x, variable: {value: Pod}}]`
		changeHere = `mutate: {targets: [{apiVersion: v1, kind: Secret}], patchStrategicMerge: {metadata: {labels: {a: b}}}}`
	)
	everything := background + " * * *"
	for _, c := range []struct {
		name, scope, rule string
		user              string
		granted           grantedTo
		want              string // the first line of the refusal; empty if it is accepted
	}{
		{"all rights", cluster, make, "jane", grantedTo{everything}, ""},
		{"none", cluster, make, "jane", nil, "path: spec.rules[0].generate..: system:serviceaccount:kyverno:background requires permissions get,create for resource v1/ConfigMap in namespace a"},
		{"some", cluster, make, "jane", grantedTo{background + " get configmaps *"}, "path: spec.rules[0].generate..: system:serviceaccount:kyverno:background requires permissions create for resource v1/ConfigMap in namespace a"},
		{"any namespace", cluster, makeAny, "jane", grantedTo{background + " * configmaps a"}, "path: spec.rules[0].generate..: system:serviceaccount:kyverno:background requires permissions get,create,update,delete for resource v1/ConfigMap in namespace {{request.object.metadata.name}}"},
		{"foreach", cluster, loop, "jane", nil, "path: spec.rules[0].generate.foreach[0].: system:serviceaccount:kyverno:background requires permissions get,create for resource v1/ConfigMap in namespace a"},
		{"the name is known, but not for create", cluster, make, "jane", grantedTo{background + " get,create configmaps a made"}, "path: spec.rules[0].generate..: system:serviceaccount:kyverno:background requires permissions create for resource v1/ConfigMap in namespace a"},
		{"every kind of a list", cluster, listed, "jane", grantedTo{background + " * secrets *"}, "path: spec.rules[0].generate..: system:serviceaccount:kyverno:background requires permissions get,create for resource v1/ConfigMap in namespace a"},
		{"a kind that is not served", cluster, strange, "jane", nil, ""},
		{"a subresource is made with its resource", cluster, statuses, "jane", nil, "path: spec.rules[0].generate..: system:serviceaccount:kyverno:background requires permissions get,create for resource v1/ConfigMap in namespace a"},
		{"targets", cluster, change, "jane", grantedTo{background + " get secrets a one"}, "path: spec.rules[0].mutate.targets.: auth check fails, additional privileges are required for the service account 'system:serviceaccount:kyverno:background': system:serviceaccount:kyverno:background requires permissions update for resource v1/Secret in namespace a"},
		{"targets, by name", cluster, change, "jane", grantedTo{background + " get,update secrets a one"}, ""},
		{"several targets", cluster, changeTwo, "jane", nil, "path: spec.rules[0].mutate.targets.: auth check fails, additional privileges are required for the service account 'system:serviceaccount:kyverno:background': system:serviceaccount:kyverno:background requires permissions get,update for resource v1/Pod/status in namespace {{ request.namespace }}; system:serviceaccount:kyverno:background requires permissions get,update for resource v1/Secret"},
		{"the author of a ClusterPolicy is not checked", cluster, binding, "jane", grantedTo{everything}, ""},

		{"an author with the rights", namespaced, make, "jane", grantedTo{everything, "jane get,create configmaps a"}, ""},
		{"elsewhere", namespaced, make, "jane", grantedTo{everything, "jane get,create configmaps b"}, "path: spec.rules[0].generate.: auth check fails, additional privileges are required for the author of the policy 'jane': jane requires permissions get,create for resource v1/ConfigMap in namespace a"},
		{"the source too", namespaced, cloned, "jane", grantedTo{everything, "jane create secrets a"}, "path: spec.rules[0].generate.: auth check fails, additional privileges are required for the author of the policy 'jane': jane requires permissions get for resource v1/Secret in namespace a"},
		{"a binding gives rights away", namespaced, binding, "jane", grantedTo{everything, "jane get,create rolebindings a"}, "path: spec.rules[0].generate.: auth check fails, additional privileges are required for the author of the policy 'jane': jane requires permissions bind for resource rbac.authorization.k8s.io/v1/Role in namespace a; jane requires permissions bind for resource rbac.authorization.k8s.io/v1/ClusterRole in namespace a"},
		{"a role", namespaced, role, "jane", grantedTo{everything, "jane get,create roles a"}, "path: spec.rules[0].generate.: auth check fails, additional privileges are required for the author of the policy 'jane': jane requires permissions escalate for resource rbac.authorization.k8s.io/v1/Role in namespace a"},
		{"a kind that is not served requires all of the group", namespaced, strange, "jane", grantedTo{everything, "jane get,create stranges a"}, "path: spec.rules[0].generate.: auth check fails, additional privileges are required for the author of the policy 'jane': jane requires permissions get,create for resource example.com/v1/Strange in namespace a"},
		{"a user who has it", namespaced, strange, "jane", grantedTo{everything, "jane * * a"}, ""},
		{"a kind in a variable", namespaced, variable, "jane", grantedTo{everything, "jane get,create configmaps a"}, "path: spec.rules[0].generate.: auth check fails, additional privileges are required for the author of the policy 'jane': jane requires permissions get,create for resource v1/{{request.object.data.kind}} in namespace a"},
		{"a role or a binding in a variable", namespaced, anyRole, "jane", grantedTo{everything, "jane get,create * a"}, "path: spec.rules[0].generate.: auth check fails, additional privileges are required for the author of the policy 'jane': jane requires permissions escalate for resource rbac.authorization.k8s.io/v1/Role in namespace a; jane requires permissions bind for resource rbac.authorization.k8s.io/v1/Role in namespace a; jane requires permissions bind for resource rbac.authorization.k8s.io/v1/ClusterRole in namespace a"},
		{"a policy, which would be the controller's", namespaced, policies, "jane", grantedTo{everything, "jane * * a"}, "path: spec.rules[0].generate..: a namespaced policy cannot generate or change a Policy"},
		{"a cleanup policy", namespaced, cleanups, "jane", grantedTo{everything, "jane * * a"}, "a namespaced policy cannot generate or change a CleanupPolicy"},
		{"a policy of a ClusterPolicy", cluster, policies, "jane", grantedTo{everything}, ""},
		{"targets of the namespace", namespaced, changeHere, "jane", grantedTo{everything, "jane get,update secrets a"}, ""},
		{"targets that the author may not change", namespaced, changeHere, "jane", grantedTo{everything, "jane get secrets a"}, "path: spec.rules[0].mutate.targets.: auth check fails, additional privileges are required for the author of the policy 'jane': jane requires permissions update for resource v1/Secret in namespace a"},
		{"no answer about the rights", namespaced, make, "nobody", grantedTo{everything}, "the rights of nobody cannot be looked up: the API server is gone"},
	} {
		srv, _ := setup(t, fakeCluster{kinds: map[string]string{
			"pods": "Pod", "configmaps": "ConfigMap", "secrets": "Secret", "roles": "Role", "rolebindings": "RoleBinding",
		}}, nil)
		srv.review.Root = world.RootFunc(func(world.Reach) world.World { return world.World{Access: c.granted} })
		srv.review.Accounts.Background, srv.review.Patience = background, 0
		code, res := postReview(t, srv, "/policyvalidate", reviewOf(t, fmt.Sprintf(c.scope, c.rule), "", c.user))
		got := ""
		if !res.Allowed {
			got, _, _ = strings.Cut(res.Result.Message, "\n")
		}
		if code != 200 || got != c.want {
			t.Errorf("%s:\ngot  %d %s\nwant %s", c.name, code, got, c.want)
		}
	}
}

// grantedLater grants everything from the third request on.
type grantedLater struct{ asked *int }

func (g grantedLater) Allowed(context.Context, world.AccessRequest) (bool, string, error) {
	*g.asked++
	return *g.asked > 2, "", nil
}

// A review waits for rights that are granted with the policy, in the same file.
func TestRightsThatAreAboutToBeGranted(t *testing.T) {
	const text = `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: a, data: {data: {k: v}}}}]}}`
	for patience, allowed := range map[time.Duration]bool{0: false, policyreview.GrantPatience: true} {
		srv, _ := setup(t, fakeCluster{}, nil)
		asked := 0
		srv.review.Root = world.RootFunc(func(world.Reach) world.World { return world.World{Access: grantedLater{&asked}} })
		srv.review.Accounts.Background, srv.review.Patience = "system:serviceaccount:kyverno:background", patience
		if _, res := postReview(t, srv, "/policyvalidate", reviewOf(t, text, "", "jane")); res.Allowed != allowed {
			t.Errorf("after %v: %+v", patience, res)
		}
	}
}

// A user who only changes labels need not have the rights of the author; a user who changes the spec must.
func TestS7RightsAgainOnChange(t *testing.T) {
	const stored = `{apiVersion: kyverno.io/v1, kind: Policy, metadata: {name: p, namespace: a}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: a, data: {data: {k: v}}}}]}}`
	srv, _ := setup(t, fakeCluster{}, nil)
	srv.review.Root = world.RootFunc(func(world.Reach) world.World { return world.World{Access: grantedTo(nil)} })
	for object, allowed := range map[string]bool{
		strings.Replace(stored, "{name: p,", "{name: p, labels: {a: b},", 1): true,
		strings.Replace(stored, "{k: v}", "{k: w}", 1):                       false,
	} {
		_, res := postReview(t, srv, "/policyvalidate", reviewOf(t, object, stored, "jane"))
		if res.Allowed != allowed {
			t.Errorf("%s: %+v", object, res)
		}
	}
}

// A policy with a deletion timestamp stays in force until its last finalizer is removed: only its metadata may be changed without a review.
func TestS19RightsWhileBeingDeleted(t *testing.T) {
	const stored = `{apiVersion: kyverno.io/v1, kind: Policy, metadata: {name: p, namespace: a, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [x.dev/wait]}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: a, data: {data: {k: v}}}}]}}`
	srv, _ := setup(t, fakeCluster{}, nil)
	srv.review.Root = world.RootFunc(func(world.Reach) world.World { return world.World{Access: grantedTo(nil)} })
	for _, c := range []struct {
		what, from, to string
		allowed        bool
	}{
		{"finalizers", "finalizers: [x.dev/wait]", "finalizers: []", true},
		{"spec", "{k: v}", "{k: w}", false},
		{"both", "finalizers: [x.dev/wait]}, spec: {rules: [", "finalizers: []}, spec: {background: false, rules: [", false},
	} {
		object := strings.Replace(stored, c.from, c.to, 1)
		if object == stored {
			t.Fatal(c.what)
		}
		if _, res := postReview(t, srv, "/policyvalidate", reviewOf(t, object, stored, "jane")); res.Allowed != c.allowed {
			t.Errorf("%s: %+v", c.what, res)
		}
	}
}

// Kinds that the reports controller may not read cause a warning, one for each rule.
func TestRightsForReports(t *testing.T) {
	const reports = "system:serviceaccount:kyverno:reports"
	text := func(background string) string {
		return `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {background: ` + background + `, rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap, Deployment, Pod]}}]}, validate: {message: m, pattern: {metadata: {labels: {a: b}}}}}]}}`
	}
	srv, _ := setup(t, fakeCluster{}, nil)
	srv.review.Root = world.RootFunc(func(world.Reach) world.World {
		return world.World{Access: grantedTo{reports + " * configmaps *", reports + " get deployments *"}}
	})
	srv.review.Accounts.Reports = reports
	for background, want := range map[string]string{
		"true":  "system:serviceaccount:kyverno:reports requires permissions list,watch for resource v1/Deployment",
		"false": "",
	} {
		if _, res := postReview(t, srv, "/policyvalidate", reviewOf(t, text(background), "", "jane")); !res.Allowed || strings.Join(res.Warnings, "; ") != want {
			t.Errorf("background %s: %+v", background, res)
		}
	}
}
