package examples_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// annotated lists the annotations that every policy has, and that docs/reference/policies.md shows.
var annotated = []string{"title", "category", "severity", "subject", "description"}

// Each folder of the library contains one policy in both families, with the same name and description, and the same expectations for the
// same resources: at least one pass and one failure. lint finds no likely mistake in either.
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

// Each policy for Pod security and of the library, in both families, passes `lint --strict`, has a description, and has tests with at least
// one pass and one failure.
func TestEveryPolicy(t *testing.T) {
	var files []string
	for _, pattern := range []string{"pod-security/*.yaml", "pod-security-cel/*.yaml", "library/*/policy.yaml", "library/*/policy-cel.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 60 {
		t.Errorf("only %d policies", len(files))
	}
	if out, code := run(append([]string{"lint", "--strict"}, files...)...); code != 0 || out != fmt.Sprintf("%d policies: 0 errors, 0 warnings", len(files)) {
		t.Errorf("lint: exit code %d\n%s", code, out)
	}
	// The expected results of Tests, by the file of the policy.
	expected := map[string]map[string]bool{}
	tests, err := filepath.Glob("library/*/kyverno-test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(tests, "kyverno-test.yaml") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(content), "\n---\n") {
			var test struct {
				Policies []string
				Results  []struct{ Policy, Result string }
			}
			if err := yaml.Unmarshal([]byte(document), &test); err != nil || len(test.Policies) != 1 {
				t.Fatalf("%s: %d policies, %v", file, len(test.Policies), err)
			}
			for _, r := range test.Results {
				policy := filepath.Join(filepath.Dir(file), test.Policies[0])
				if filepath.Ext(policy) == "" { // a folder
					policy = filepath.Join(policy, r.Policy+".yaml")
				}
				if expected[policy] == nil {
					expected[policy] = map[string]bool{}
				}
				expected[policy][r.Result] = true
			}
		}
	}
	for _, file := range files {
		metadata := policyMetadata(t, file)
		for _, a := range annotated {
			if metadata.Annotations["policies.kyverno.io/"+a] == "" {
				t.Errorf("%s has no %s", file, a)
			}
		}
		if !expected[file]["pass"] || !expected[file]["fail"] {
			t.Errorf("%s: the tests expect %v", file, expected[file])
		}
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

// expectations returns the expected results of each Test in a file, by resource.
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
