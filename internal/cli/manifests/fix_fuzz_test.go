package manifests

import (
	"testing"
)

// FuzzFix: fixing any file neither panics nor leaves anything to fix.
func FuzzFix(f *testing.F) {
	f.Add([]byte("apiVersion: kyverno.io/v1\nkind: Policy\nspec:\n  rules:\n  - match: {resources: {kinds: [Pod]}}\n    preconditions: [{key: a, operator: In, value: b}]\n"))
	f.Add([]byte("name: x\nresults:\n- {policy: p, resource: a, namespace: b, status: pass}\n- {policy: p, resources: [a]}\n"))
	f.Add([]byte("a: &x {resources: 1}\nspec: {rules: [*x, 1, null]}\n"))
	f.Add([]byte("results:\n- {0,resource,resource}")) // a duplicate key
	f.Fuzz(func(t *testing.T, text []byte) {
		fix := func(in []byte) (*fixedFile, []byte) {
			file, err := parseDocuments("f.yaml", in)
			if err != nil {
				return nil, nil
			}
			for _, doc := range file.roots() {
				file.policy(doc)
				file.header(doc, "Test", "t")
				file.results(doc, true)
			}
			out, err := file.text()
			if err != nil {
				return nil, nil
			}
			return file, out
		}
		once, out := fix(text)
		if once == nil {
			return
		}
		if twice, _ := fix(out); twice != nil && twice.changed {
			t.Errorf("%q: fixed once:\n%s\nand again: %q", text, out, twice.warnings)
		}
	})
}
