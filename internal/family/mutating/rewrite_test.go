package mutating

import (
	"strings"
	"testing"
)

var (
	podTemplate = template{"spec", "template"}
	jobTemplate = template{"spec", "jobTemplate", "spec", "template"}
)

// An expression for Pods is rewritten for the Pod template of a controller.
func TestRewrite(t *testing.T) {
	for _, c := range []struct{ name, in, deployment, cronJob string }{
		{
			"fields of the object",
			"object.spec.hostNetwork && 'a' in oldObject.metadata.labels && has(object.metadata.annotations)",
			"object.spec.template.spec.hostNetwork && 'a' in oldObject.spec.template.metadata.labels && has(object.spec.template.metadata.annotations)",
			"object.spec.jobTemplate.spec.template.spec.hostNetwork && 'a' in oldObject.spec.jobTemplate.spec.template.metadata.labels && has(object.spec.jobTemplate.spec.template.metadata.annotations)",
		},
		{
			"what is no field of a template stays",
			"object.metadata.name + object.?spec + namespaceObject.metadata.labels + myobject.spec + object.specs",
			"object.metadata.name + object.?spec + namespaceObject.metadata.labels + myobject.spec + object.specs",
			"object.metadata.name + object.?spec + namespaceObject.metadata.labels + myobject.spec + object.specs",
		},
		{
			"an Object",
			"Object{spec: Object.spec{hostNetwork: false}}",
			"Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{hostNetwork: false}}}}",
			"Object{spec: Object.spec{jobTemplate: Object.spec.jobTemplate{spec: Object.spec.jobTemplate.spec{template: Object.spec.jobTemplate.spec.template{" +
				"spec: Object.spec.jobTemplate.spec.template.spec{hostNetwork: false}}}}}}",
		},
		{
			"white space before the brace, and a choice",
			"has(object.spec.x) ? Object {} : Object // a { comment }\n{spec: Object.spec {x: '}'}}",
			"has(object.spec.template.spec.x) ? Object {spec: Object.spec{template: Object.spec.template{}}} : Object // a { comment }\n" +
				"{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec {x: '}'}}}}",
			"has(object.spec.jobTemplate.spec.template.spec.x) ? Object {spec: Object.spec{jobTemplate: Object.spec.jobTemplate{spec: Object.spec.jobTemplate.spec{template: Object.spec.jobTemplate.spec.template{}}}}} : Object // a { comment }\n" +
				"{spec: Object.spec{jobTemplate: Object.spec.jobTemplate{spec: Object.spec.jobTemplate.spec{template: Object.spec.jobTemplate.spec.template{spec: Object.spec.jobTemplate.spec.template.spec {x: '}'}}}}}}",
		},
		{
			"texts in quotes are no braces",
			`Object{spec: Object.spec{a: "\"}", b: '''}'}''', c: r'\', d: {'Object{': 1}}}`,
			`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{a: "\"}", b: '''}'}''', c: r'\', d: {'Object{': 1}}}}}`,
			`Object{spec: Object.spec{jobTemplate: Object.spec.jobTemplate{spec: Object.spec.jobTemplate.spec{template: Object.spec.jobTemplate.spec.template{` +
				`spec: Object.spec.jobTemplate.spec.template.spec{a: "\"}", b: '''}'}''', c: r'\', d: {'Object{': 1}}}}}}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := podTemplate.configuration(c.in); got != c.deployment {
				t.Errorf("got  %s\nwant %s", got, c.deployment)
			}
			if got := jobTemplate.configuration(c.in); got != c.cronJob {
				t.Errorf("got  %s\nwant %s", got, c.cronJob)
			}
		})
	}
}

// FuzzRewrite rewrites random texts: the rewriting ends, keeps all other text, and keeps balanced braces balanced.
func FuzzRewrite(f *testing.F) {
	for _, s := range []string{"Object{}", "Object.spec{a: 'x}'}", "object.spec", `Object{a: "`, "Object // {\n{}", "}{", "'''", `r"\`, "é.Object{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, to := range []template{podTemplate, jobTemplate} {
			out := to.configuration(in)
			if !strings.Contains(in, "bject") && out != in {
				t.Errorf("%q became %q", in, out)
			}
			if max := (len(in) + 1) * 80; len(out) > max {
				t.Errorf("%d bytes became %d", len(in), len(out))
			}
			if a, b := strings.Count(in, "{")-strings.Count(in, "}"), strings.Count(out, "{")-strings.Count(out, "}"); strings.Count(in, "}") == 0 && b < a {
				t.Errorf("%q became %q", in, out)
			}
		}
	})
}
