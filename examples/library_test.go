package examples_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// annotated are the annotations that every policy has, which the page docs/reference/policies.md shows.
var annotated = []string{"title", "category", "severity", "subject", "description"}

// Each folder of the library holds one policy in two languages, with the same name and description, which expect the same of the same
// resources: something that passes and something that fails. Neither has a likely mistake.
func TestLibrary(t *testing.T) {
	folders, err := filepath.Glob("library/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no policies: %v", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			classic, cel := policyMetadata(t, filepath.Join(folder, "policy.yaml")), policyMetadata(t, filepath.Join(folder, "policy-cel.yaml"))
			if classic.Name != filepath.Base(folder) || !reflect.DeepEqual(classic, cel) {
				t.Errorf("the two policies do not say the same of themselves:\n%+v\n%+v", classic, cel)
			}
			for _, a := range annotated {
				if classic.Annotations["policies.kyverno.io/"+a] == "" {
					t.Errorf("there is no %s", a)
				}
			}
			if out, code := run("lint", "--strict", filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "policy-cel.yaml")); code != 0 {
				t.Errorf("lint: %s", out)
			}
			tests := expectations(t, filepath.Join(folder, "kyverno-test.yaml"))
			if len(tests) != 2 || !reflect.DeepEqual(tests[0], tests[1]) {
				t.Errorf("the tests of the two policies expect different results: %v", tests)
			}
			results := map[string]bool{}
			for _, result := range tests[0] {
				results[result] = true
			}
			if !results["pass"] || !results["fail"] {
				t.Errorf("the tests need something that passes and something that fails: %v", tests[0])
			}
		})
	}
}

type described struct {
	Name        string
	Annotations map[string]string
}

func policyMetadata(t *testing.T, file string) described {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var object struct{ Metadata described }
	if err := yaml.Unmarshal(content, &object); err != nil {
		t.Fatal(err)
	}
	return object.Metadata
}

// expectations are the results that each Test of a file expects, by resource.
func expectations(t *testing.T, file string) (tests []map[string]string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(content), "\n---\n") {
		var test struct {
			Results []struct {
				Kind, Result string
				Resources    []string
			}
		}
		if err := yaml.Unmarshal([]byte(document), &test); err != nil {
			t.Fatal(err)
		}
		expected := map[string]string{}
		for _, r := range test.Results {
			for _, name := range r.Resources {
				expected[r.Kind+"/"+name] = r.Result
			}
		}
		tests = append(tests, expected)
	}
	return tests
}
