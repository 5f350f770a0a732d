package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/source"
)

// suite is a Test file of the reference command line, as far as tests of `apply` need it.
type suite struct {
	Policies  []string      `json:"policies"`
	Resources []string      `json:"resources"`
	Results   []expectation `json:"results"`

	Variables string `json:"variables"`
	Values    any    `json:"values"`
	UserInfo  string `json:"userinfo"`
	Context   string `json:"context"`
}

// expectation says what one rule is to give for some resources.
type expectation struct {
	Policy    string   `json:"policy"`
	Rule      string   `json:"rule"`
	Resources []string `json:"resources"`
	Kind      string   `json:"kind"`
	Result    string   `json:"result"`
}

func (e expectation) String() string {
	return fmt.Sprintf("%s | %s | %s %s", e.Policy, e.Rule, e.Kind, strings.Join(e.Resources, ", "))
}

// runSuite runs the kyverno-test.yaml of one folder.
func runSuite(dir string) verdict {
	text, err := os.ReadFile(filepath.Join(dir, suiteFile))
	if err != nil {
		return verdict{failures: []string{err.Error()}}
	}
	var v verdict
	for _, doc := range source.Split(suiteFile, string(text)) {
		var s suite
		if err := yaml.Unmarshal([]byte(doc.Text()), &s); err != nil {
			v.failures = append(v.failures, err.Error())
			continue
		}
		v.add(s.run(dir))
	}
	return v
}

func (s *suite) run(dir string) verdict {
	policies := within(dir, s.Policies)
	names, missing := inspect(policies)
	v := verdict{missing: missing.features(), policies: len(names), run: len(names) - len(missing)}
	for _, f := range []struct {
		used    bool
		feature string
	}{
		{s.Variables != "" || s.Values != nil, "test values"},
		{s.UserInfo != "", "test user info"},
		{s.Context != "", "test context"},
	} {
		if f.used {
			v.missing = append(v.missing, f.feature)
			v.run = 0
		}
	}
	if v.run <= 0 {
		return v
	}
	args := slices.Clone(policies)
	for _, r := range within(dir, s.Resources) {
		args = append(args, "--resource", r)
	}
	got, err := apply(args...)
	if err != nil {
		return verdict{failures: []string{err.Error()}}
	}
	for _, e := range s.Results {
		policy := e.Policy[strings.LastIndexByte(e.Policy, '/')+1:]
		if _, lacks := missing[policy]; lacks {
			continue
		}
		rules, known := names[policy]
		if !known {
			v.failures = append(v.failures, fmt.Sprintf("%s: there is no policy of that name", e))
			continue
		}
		if !slices.ContainsFunc(rules, e.speaksOfRule) {
			v.excluded++ // a rule that does not exist: the reference lets it pass, whatever is expected
			continue
		}
		v.results++
		v.failures = append(v.failures, e.check(policy, got.results)...)
	}
	if len(v.failures) > 0 && got.stderr != "" {
		v.failures = append(v.failures, "stderr: "+got.stderr)
	}
	return v
}

// check compares the results that the expectation speaks of. Every one of them must have the expected status, and
// there must be one unless a skip is expected: the reference lets expectations without any result pass, which hides
// rules that never run.
func (e expectation) check(policy string, results []result) []string {
	var out []string
	for _, group := range e.selections(results) {
		found := false
		for _, r := range group.results {
			if r.Policy[strings.LastIndexByte(r.Policy, '/')+1:] != policy || !e.speaksOfRule(r.Rule) {
				continue
			}
			found = true
			if r.Result != e.Result {
				out = append(out, fmt.Sprintf("%s\n    want %s\n    got  %s of %s: %s", e, e.Result, r.Result, r.key(), r.message()))
			}
		}
		if !found && e.Result != "skip" {
			out = append(out, fmt.Sprintf("%s\n    want %s\n    got  no result for %s", e, e.Result, group.resource))
		}
	}
	return out
}

// selection are the results for one named resource.
type selection struct {
	resource string
	results  []result
}

// selections sorts the results by the resources that the expectation names; without names all are meant.
func (e expectation) selections(results []result) []selection {
	if len(e.Resources) == 0 {
		return []selection{{"any resource", results}}
	}
	var out []selection
	for _, want := range e.Resources {
		s := selection{resource: want}
		namespace, name, qualified := strings.Cut(want, "/")
		for _, r := range results {
			if !qualified && r.Name == want || qualified && r.Name == name && r.Namespace == namespace {
				s.results = append(s.results, r)
			}
		}
		out = append(out, s)
	}
	return out
}

func (e expectation) speaksOfRule(rule string) bool {
	return e.Rule == "" || rule == e.Rule || rule == "autogen-"+e.Rule || rule == "autogen-cronjob-"+e.Rule
}

// within makes the paths of a Test file relative to its folder.
func within(dir string, paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = filepath.Join(dir, p)
	}
	return out
}
