package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// pathFields are the fields of a Test that hold paths, and those of its results.
var (
	pathFields   = []string{"policies", "resources", "targetResources", "paramResources", "variables", "userinfo", "exceptions", "context", "clusterResources"}
	resultFields = []string{"patchedResources", "generatedResource", "generatedResources", "cloneSourceResource"}
)

// turnRound runs the test once more with one inverted expectation for which some row is Ok, and requires that this
// fails: a runner that lets everything pass would not notice. turned is false if no row is Ok.
func turnRound(suites []suite, rows []row) (turned bool, err error) {
	i := slices.IndexFunc(rows, func(r row) bool { return r.Reason == "Ok" })
	if i < 0 {
		return false, nil
	}
	for _, s := range suites {
		result := s.find(rows[i])
		if result == nil {
			continue
		}
		path, remove, err := s.turned(result)
		if err != nil {
			return false, err
		}
		defer remove()
		if got := test(path); got.exitCode != 1 || !strings.Contains(got.stderr, "tests failed") {
			return false, fmt.Errorf("%s: turned round, the expectation does not fail: exit code %d %s", rows[i], got.exitCode, got.stderr)
		}
		return true, nil
	}
	return false, fmt.Errorf("%s: no expectation fits this row", rows[i])
}

// find returns the entry in results to which the row belongs, nil if it is not in this Test. Rows of policies without rules name no rule.
func (s suite) find(r row) map[string]any {
	results, _ := s.value["results"].([]any)
	var other map[string]any
	for _, x := range results {
		e, _ := x.(map[string]any)
		rule, _ := e["rule"].(string)
		if e["policy"] != r.Policy || rule != "" && r.Rule != "" && !slices.Contains([]string{rule, "autogen-" + rule, "autogen-cronjob-" + rule}, r.Rule) {
			continue
		}
		resources, _ := e["resources"].([]any)
		if len(resources) == 0 || slices.ContainsFunc(resources, func(name any) bool {
			n, _ := name.(string)
			return r.Resource == n || strings.HasSuffix(r.Resource, "/"+n)
		}) {
			return e
		}
		other = e
	}
	return other
}

// turned writes the Test with the inverted expectation into a new folder, with paths that lead back.
func (s suite) turned(result map[string]any) (path string, remove func(), err error) {
	home, err := filepath.Abs(s.dir)
	if err != nil {
		return "", nil, err
	}
	changed := copyMap(s.value)
	for _, f := range pathFields {
		absolute(changed, f, home)
	}
	results, _ := s.value["results"].([]any)
	list := make([]any, len(results))
	for i, x := range results {
		e, _ := x.(map[string]any)
		c := copyMap(e)
		for _, f := range resultFields {
			absolute(c, f, home)
		}
		if value.Equal(e, result) { // equal expectations are inverted together
			c["result"] = "pass"
			if e["result"] == "pass" {
				c["result"] = "fail"
			}
		}
		list[i] = c
	}
	changed["results"] = list
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	if err := s.copyFiles(dir); err != nil {
		remove()
		return "", nil, err
	}
	path = filepath.Join(dir, suiteFile)
	return path, remove, os.WriteFile(path, []byte(value.JSON(changed)), 0o600)
}

// copyFiles copies the files that must be in the folder of the Test.
func (s suite) copyFiles(dir string) error {
	entries, _ := s.value["globalContextEntries"].([]any)
	for _, x := range entries {
		e, _ := x.(map[string]any)
		files, _ := e["resourceFiles"].([]any)
		for _, f := range files {
			name, _ := f.(string)
			b, err := os.ReadFile(filepath.Join(s.dir, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func absolute(m map[string]any, field, dir string) {
	switch x := m[field].(type) {
	case string:
		m[field] = within(dir, []string{x})[0]
	case []any:
		list := make([]any, len(x))
		for i, p := range x {
			list[i] = p
			if p, ok := p.(string); ok {
				list[i] = within(dir, []string{p})[0]
			}
		}
		m[field] = list
	}
}

func copyMap(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
