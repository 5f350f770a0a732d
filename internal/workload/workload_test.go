package workload_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/workload"
	"ephor.invalid/ephor/internal/world"
)

// TestGives runs testdata/*.txtar: each item of changes.yaml changes the object, or the live controller, and may restrict the fields that are
// read. want says whether the controller still gives the object.
func TestGives(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		var out strings.Builder
		for _, c := range golden.Objects(t, in.Text("changes.yaml")) {
			controller := golden.Decode[map[string]any](t, in.Text("controller.yaml"))
			direct := controller
			if text := in.Text("direct.yaml"); text != nil {
				direct = golden.Decode[map[string]any](t, text)
			}
			object := golden.Decode[map[string]any](t, in.Text("object.yaml"))
			for _, side := range []struct {
				of map[string]any
				by string
			}{{object, "object"}, {controller, "controller"}} {
				changes, _ := c[side.by].(map[string]any)
				for path, v := range changes {
					set(side.of, strings.Split(path, "."), v)
				}
			}
			var reads *value.Fields
			if list, ok := c["reads"].([]any); ok {
				reads = &value.Fields{}
				for _, path := range list {
					at := reads
					for _, name := range strings.Split(path.(string), ".") {
						if name == "*" {
							at = at.Items()
						} else {
							at = at.Member(name)
						}
					}
				}
			}
			answer := "different"
			if workload.Gives(controller, direct, object, reads, c["placed"] == true) {
				answer = "given"
			}
			fmt.Fprintf(&out, "%s: %s\n", c["what"], answer)
		}
		return out.String()
	})
}

// set sets the value at a path, and removes it for null.
func set(at any, path []string, v any) {
	for _, name := range path[:len(path)-1] {
		switch x := at.(type) {
		case map[string]any:
			if x[name] == nil {
				x[name] = map[string]any{}
			}
			at = x[name]
		case []any:
			i, _ := strconv.Atoi(name)
			at = x[i]
		}
	}
	last := path[len(path)-1]
	switch x := at.(type) {
	case map[string]any:
		if x[last] = v; v == nil {
			delete(x, last)
		}
	case []any:
		i, _ := strconv.Atoi(last)
		x[i] = v
	}
}

// cluster holds objects by kind and name. A nil object cannot be read.
type cluster map[string]map[string]any

func (c cluster) Get(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
	o, ok := c[r.Kind.Kind+" "+r.Name]
	switch {
	case !ok:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, r.Name)
	case o == nil:
		return nil, errors.New("forbidden")
	}
	return o, nil
}

// owned returns an object with a reference, written as apiVersion kind name uid.
func owned(uid, reference string) map[string]any {
	m := map[string]any{"uid": uid}
	if f := strings.Fields(reference); len(f) == 4 {
		m["ownerReferences"] = []any{map[string]any{"apiVersion": f[0], "kind": f[1], "name": f[2], "uid": f[3], "controller": true}}
	}
	return map[string]any{"metadata": m}
}

func TestOwners(t *testing.T) {
	all := cluster{
		"ReplicaSet web-1": owned("r", "apps/v1 Deployment web d"), "Deployment web": owned("d", ""),
		"ReplicaSet self": owned("s", "apps/v1 ReplicaSet self s"), "ReplicaSet locked": owned("l", "apps/v1 Deployment locked x"), "Deployment locked": nil,
		"ReplicaSet orphan": owned("o", "apps/v1 Deployment gone g"),
	}
	for _, c := range []struct{ what, reference, namespace, want string }{
		{"the whole chain", "apps/v1 ReplicaSet web-1 r", "n", "r d"},
		{"no reference", "", "n", ""},
		{"another UID", "apps/v1 ReplicaSet web-1 other", "n", ""},
		{"another group", "example.com/v1 ReplicaSet web-1 r", "n", ""},
		{"an older version", "apps/v1beta2 ReplicaSet web-1 r", "n", "r d"},
		{"an unknown kind", "example.com/v1 Rollout web-1 r", "n", ""},
		{"a missing owner", "apps/v1 ReplicaSet orphan o", "n", "o"},
		{"an owner that cannot be read", "apps/v1 ReplicaSet locked l", "n", "l: forbidden"},
		{"a circle", "apps/v1 ReplicaSet self s", "n", "s s s"},
		{"no namespace", "apps/v1 ReplicaSet web-1 r", "", ""},
	} {
		owners, err := workload.Owners(t.Context(), all.Get, c.namespace, owned("p", c.reference))
		var uids []string
		for _, o := range owners {
			uids = append(uids, o["metadata"].(map[string]any)["uid"].(string))
		}
		got := strings.Join(uids, " ")
		if err != nil {
			got += ": " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
	if !workload.IsController("Deployment") || slices.ContainsFunc([]string{"Pod", "Rollout", ""}, workload.IsController) {
		t.Error("the kinds of controllers")
	}
}
