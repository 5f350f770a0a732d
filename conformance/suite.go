package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/source"
)

// suite is the part of a Test file that the runner itself reads; `ephor test` reads the rest.
type suite struct {
	value map[string]any // the whole document
	dir   string
}

// row is one row of the JSON output of `ephor test`.
type row struct {
	Policy   string `json:"POLICY"`
	Rule     string `json:"RULE"`
	Resource string `json:"RESOURCE"`
	Result   string `json:"RESULT"`
	Reason   string `json:"REASON"`
	Message  string `json:"Message"`
}

func (r row) String() string { return r.Policy + " | " + r.Rule + " | " + r.Resource }

// meantToFail are folders whose tests also fail in Kyverno: they show how `test` handles mistakes in a Test, such as a result of an
// ImageValidatingPolicy for a Pod that it does not match.
var meantToFail = []string{filepath.Join("test-fail", "missing-policy"), "sample-policy-exclusion"}

// featureNetwork is a requirement of tests in addition to the features that Compile reports.
const featureNetwork = "the network"

// runSuite runs the kyverno-test.yaml of one folder with `ephor test`, and once more with an inverted expectation.
func runSuite(dir string) verdict {
	suites, err := readSuites(dir)
	if err != nil {
		return verdict{failures: []string{err.Error()}}
	}
	var v verdict
	for _, s := range suites {
		s.inspect(&v)
	}
	if len(v.missing) > 0 {
		return v
	}
	v.run = max(v.policies, 1)
	registries, waiting := askRegistries(suites), 0
	var flags []string
	if len(registries) > 0 {
		flags = []string{"--registry"}
	}
	got := test(filepath.Join(dir, suiteFile), flags...)
	v.results = len(got.rows)
	var failures []string
	for _, r := range got.rows {
		if r.Result == "Fail" {
			if registries[[2]string{path.Base(r.Policy), r.Rule}] {
				waiting++
			}
			failures = append(failures, fmt.Sprintf("%s\n    %s: %s", r, r.Reason, r.Message))
		}
	}
	if mistake := got.exitCode != 0 && len(failures) == 0; mistake {
		failures = append(failures, fmt.Sprintf("exit code %d: %s", got.exitCode, got.stderr))
	}
	switch {
	case slices.ContainsFunc(meantToFail, func(name string) bool { return strings.HasSuffix(dir, name) }):
		if got.exitCode != 1 {
			v.failures = append(v.failures, fmt.Sprintf("exit code %d of a test that is meant to fail", got.exitCode))
		}
		return v
	case waiting > 0 && waiting == len(failures): // any other failure counts
		v.run, v.results, v.missing = 0, 0, []string{featureNetwork}
		return v
	}
	v.failures = append(v.failures, failures...)
	if len(failures) == 0 {
		v.turned, err = turnRound(suites, got.rows)
		if err != nil {
			v.failures = append(v.failures, err.Error())
		}
	}
	return v
}

// readSuites reads the documents of the folder's Test file.
func readSuites(dir string) ([]suite, error) {
	text, err := os.ReadFile(filepath.Join(dir, suiteFile))
	if err != nil {
		return nil, err
	}
	var out []suite
	for _, doc := range source.Split(suiteFile, string(text)) {
		v, diags := doc.Value(source.Floats)
		m, ok := v.(map[string]any)
		if diags.HasErrors() || !ok {
			return nil, fmt.Errorf("%s is no Test: %v", doc.Positions()(""), diags)
		}
		out = append(out, suite{m, dir})
	}
	return out, nil
}

// paths returns the paths in a field that holds a list or a text, made relative to the Test's folder.
func (s suite) paths(field string) []string {
	var list []string
	switch x := s.value[field].(type) {
	case string:
		list = []string{x}
	case []any:
		for _, p := range x {
			if p, ok := p.(string); ok {
				list = append(list, p)
			}
		}
	}
	return within(s.dir, list)
}

// inspect adds to the verdict the number of policies in the Test and the missing features that they need.
func (s suite) inspect(v *verdict) {
	names, missing := inspect(s.paths("policies"))
	v.policies += len(names)
	v.missing = append(v.missing, missing.features()...)
}

// askRegistries returns the rules, as policy and rule, that request data or signatures of images from a registry.
func askRegistries(suites []suite) map[[2]string]bool {
	out := map[[2]string]bool{}
	for _, s := range suites {
		objects, _ := source.Load(s.paths("policies"), source.Options{Recursive: true})
		for _, o := range objects {
			spec, _ := o.Value["spec"].(map[string]any)
			if asksInCEL(spec["validations"]) {
				out[[2]string{o.Name(), o.Name()}] = true // a policy without rules is one rule with the same name
			}
			rules, _ := spec["rules"].([]any)
			for _, r := range rules {
				rule, _ := r.(map[string]any)
				if name, _ := rule["name"].(string); anyKey(rule, "imageRegistry", "verifyImages") {
					for _, prefix := range []string{"", "autogen-", "autogen-cronjob-"} {
						out[[2]string{o.Name(), prefix + name}] = true
					}
				}
			}
		}
	}
	return out
}

// celAsks are the CEL functions whose answers come from registries.
var celAsks = []string{"verifyImageSignatures", "verifyAttestationSignatures", "extractPayload", "getImageData", "image.getMetadata"}

// asksInCEL reports whether an expression anywhere in v calls a function of celAsks.
func asksInCEL(v any) bool {
	switch x := v.(type) {
	case string:
		return slices.ContainsFunc(celAsks, func(name string) bool { return strings.Contains(x, name+"(") })
	case map[string]any:
		for _, c := range x {
			if asksInCEL(c) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, asksInCEL)
	}
	return false
}

// anyKey reports whether one of the keys occurs anywhere in v.
func anyKey(v any, keys ...string) bool {
	switch x := v.(type) {
	case map[string]any:
		for k, c := range x {
			if slices.Contains(keys, k) || anyKey(c, keys...) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, func(c any) bool { return anyKey(c, keys...) })
	}
	return false
}

// tested is the result of `ephor test`.
type tested struct {
	exitCode int
	rows     []row
	stderr   string
}

// test runs the command line in this process.
func test(path string, flags ...string) tested {
	var stdout, stderr bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetIn(strings.NewReader(""))
	got := tested{exitCode: cli.Main(append([]string{"ephor", "test", path, "--output-format", "json", "--detailed-results"}, flags...), root)}
	got.stderr = stderr.String()
	// Between the lines of progress, the rows of each test are one array.
	var array strings.Builder
	for line := range strings.Lines(stdout.String()) {
		if strings.HasPrefix(line, "[") || array.Len() > 0 {
			array.WriteString(line)
		}
		if strings.HasPrefix(line, "]") {
			var rows []row
			if err := json.Unmarshal([]byte(array.String()), &rows); err != nil {
				got.stderr += err.Error()
			}
			got.rows = append(got.rows, rows...)
		}
		if strings.HasPrefix(line, "]") || line == "[]\n" {
			array.Reset()
		}
	}
	return got
}

// within makes the paths in a Test file relative to its folder.
func within(dir string, paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = p
		if !filepath.IsAbs(p) {
			out[i] = filepath.Join(dir, p)
		}
	}
	return out
}
