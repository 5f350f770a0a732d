package compiler

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cel/env"
)

// The objects that expressions of a generating policy name in literals are found, and parts of objects are not mistaken for objects.
func TestObjects(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{`generator.Apply("ns", [{"apiVersion": dyn("v1"), "kind": dyn("ConfigMap"), "metadata": dyn({"name": "c"})}])`, "v1 ConfigMap"},
		{`generator.Apply("ns", [resource.Get("v1", "secrets", "default", object.metadata.name)])`, "v1 secrets get"},
		{`generator.Apply("ns", object.spec.names.map(n, {"apiVersion": dyn("apps/v1"), "kind": dyn("Deployment"), "metadata": dyn({"name": n, "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "metadata": "m"}]})}))`, "apps/v1 Deployment"},
		{`generator.Apply("ns", [{"apiVersion": dyn(object.apiVersion), "kind": dyn("ConfigMap"), "metadata": dyn({"name": "c"})}])`, ""},
		{`generator.Apply("ns", [{"apiVersion": dyn("v1"), "kind": dyn("ConfigMap"), "name": dyn("c")}])`, ""},
		{`generator.Apply("ns", dyn(resource.List("v1", "configmaps", "default").items))`, "v1 configmaps list"},
	} {
		for _, kind := range []env.Kind{env.Generating, env.Mutating} {
			x := New(env.Declarations{Kind: kind})
			if err := x.Variable("v", c.expression); err != nil && kind == env.Generating {
				t.Fatal(err)
			}
			var got []string
			for _, o := range x.Objects() {
				got = append(got, strings.TrimSpace(fmt.Sprint(o.APIVersion, " ", o.Name, " ", o.Verb)))
			}
			want := c.want
			if kind != env.Generating {
				want = ""
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%s: %q, want %q", c.expression, got, want)
			}
		}
	}
}
