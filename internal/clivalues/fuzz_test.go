package clivalues

import (
	"testing"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
)

// For any content of a file, reading and using it ends without a panic.
func FuzzFiles(f *testing.F) {
	f.Add(valuesText)
	f.Add("apiVersion: x\nkind: Test\nresults: [{policy: p, resourceSpecs: [{version: v1}]}]\napiCallResponses: [{url: 'https://a', response: {body: {}}}]\n")
	f.Add("globalValues: {request: {operation: DELETE, object: {a: 1}}, request.object: 1, a..b: 2, '\"': 3}\n")
	f.Add("policies: [{name: /, rules: [{name: r, values: {element: {}}, foreachValues: {element.a: [1], '': [null]}}]}]\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		for _, doc := range source.Split("fuzz.yaml", text) {
			var v v1alpha1.Values
			DecodeDocument(doc, &v)
			assignments, _ := ParseAssignments([]string{text})
			s := New(&v.ValuesSpec, assignments)
			for _, p := range append(v.Policies, v1alpha1.PolicyValues{Name: "p"}) {
				values, err := s.For(p.Name, "r")
				if err != nil {
					continue
				}
				if g := values.Rule(nil, &policy.Rule{Name: "r"}); g != nil && g.Elements != nil {
					g.Elements(0)
					g.Elements(1 << 20)
				}
			}
			var test v1alpha1.Test
			DecodeDocument(doc, &test)
			NewCalls(test.APICallResponses)
			NewGlobals(test.GlobalContextEntries, dir)
			var user v1alpha1.UserInfo
			DecodeDocument(doc, &user)
			s.SetUser(&user)
		}
	})
}
