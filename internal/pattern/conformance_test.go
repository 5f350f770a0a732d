package pattern

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestRecordedResults compares Match with recorded results of Kyverno: random policies on random resources
// (semantics-*), and public policies on resources that were changed at random. It compares a result if this package
// alone decides it: always the status, and the message if it has no variables. Rules from autogen, patterns with
// variables, and results of preconditions, deny and contexts are left to the tests of the pipeline.
func TestRecordedResults(t *testing.T) {
	data := os.Getenv("EPHOR_CONFORMANCE")
	if data == "" || data == "none" {
		t.Skip("EPHOR_CONFORMANCE names no data folder: the recorded results are not compared")
	}
	compared, asIntegers := 0, 0
	root := filepath.Join(data, "differential")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "expected.json" {
			name, _ := filepath.Rel(root, filepath.Dir(path))
			t.Run(name, func(t *testing.T) {
				n, d := compareFolder(t, filepath.Dir(path))
				compared += n
				asIntegers += d
			})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d results compared; %d of them differ when whole numbers are decoded as integers, as in the cluster", compared, asIntegers)
	if compared < 1000 {
		t.Errorf("only %d results were compared below %s", compared, root)
	}
}

type recordedRule struct {
	Name          string
	Context       []any
	Preconditions any
	Validate      struct {
		Message    string
		Pattern    any
		AnyPattern []any
		Foreach    []struct {
			List          string
			Context       []any
			Preconditions any
			Pattern       any
			Deny, Foreach any
		}
	}
}

type recordedPolicy struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct{ Rules []recordedRule }
}

type recordedResult struct {
	Policy, Rule, Kind, Namespace, Name, Result string
	Message                                     *string
}

// evaluate returns status and message of one rule for one resource.
type evaluate func(message string, resource map[string]any) (string, string)

func compareFolder(t *testing.T, dir string) (compared, asIntegers int) {
	resources := map[string]map[string]any{}
	for _, doc := range documents(t, filepath.Join(dir, "resources.yaml")) {
		var r map[string]any
		mustYAML(t, doc, &r) // encoding/json decodes every number as float64, as the command line does
		m, ok := r["metadata"].(map[string]any)
		if !ok {
			continue
		}
		for _, name := range []string{"labels", "annotations"} { // the command line loads null as an empty map
			if v, present := m[name]; present && v == nil {
				m[name] = map[string]any{}
			}
		}
		key := fmt.Sprint(r["kind"], "/", m["name"])
		if _, twice := resources[key]; twice {
			r = nil // the same name in two namespaces
		}
		resources[key] = r
	}
	rules, evaluates := rulesOf(t, dir)
	var expected struct{ Results []recordedResult }
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &expected); err != nil {
		t.Fatal(err)
	}
	bad := 0
	for _, want := range expected.Results {
		rule, evaluate := rules[want.Policy+"/"+want.Rule], evaluates[want.Policy+"/"+want.Rule]
		resource := resources[want.Kind+"/"+want.Name]
		if evaluate == nil || resource == nil || decidedElsewhere(want) {
			continue
		}
		message := strings.ReplaceAll(rule.Validate.Message, "{{ request.object.metadata.name }}", want.Name)
		status, text := evaluate(message, resource)
		compared++
		if s, x := evaluate(message, integers(resource).(map[string]any)); s != status || x != text {
			asIntegers++
		}
		same := status == want.Result
		if same && want.Message != nil && !strings.Contains(message, "{{") {
			same = text == *want.Message
		}
		if same {
			continue
		}
		if bad++; bad <= 5 {
			pattern, _ := json.Marshal(rule.Validate)
			spec, _ := json.Marshal(resource)
			recorded := "(no message)"
			if want.Message != nil {
				recorded = *want.Message
			}
			t.Errorf("%s %s\n got %s %s\nwant %s %s\n pattern %s\n resource %s", want.Policy, want.Name, status, text, want.Result, recorded, pattern, spec)
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d results differ", bad, compared)
	}
	return compared, asIntegers
}

// rulesOf reads the rules of a folder's policies that this package alone can evaluate.
func rulesOf(t *testing.T, dir string) (map[string]recordedRule, map[string]evaluate) {
	rules, evaluates := map[string]recordedRule{}, map[string]evaluate{}
	for _, doc := range documents(t, filepath.Join(dir, "policy.yaml")) {
		var p recordedPolicy
		if err := yaml.Unmarshal([]byte(doc), &p); err != nil || p.Kind != "ClusterPolicy" && p.Kind != "Policy" {
			continue
		}
		for _, r := range p.Spec.Rules {
			key := p.Metadata.Name + "/" + r.Name
			rules[key] = r
			v := r.Validate
			switch {
			case len(r.Context) > 0 || hasVariables(v.Pattern) || hasVariables(v.AnyPattern):
			case v.Pattern != nil:
				evaluates[key] = evaluatePattern(r.Name, v.Pattern)
			case v.AnyPattern != nil:
				evaluates[key] = evaluateAlternatives(r.Name, v.AnyPattern)
			case len(v.Foreach) == 1:
				f := v.Foreach[0]
				path, simple := strings.CutPrefix(f.List, "request.object.")
				if simple && f.Pattern != nil && !hasVariables(f.Pattern) && f.Preconditions == nil && f.Context == nil && !strings.ContainsAny(path, "[]|(") {
					evaluates[key] = evaluateForeach(r.Name, path, f.Pattern)
				}
			}
		}
	}
	return rules, evaluates
}

// decidedElsewhere reports whether the recorded result does not depend on the pattern.
func decidedElsewhere(r recordedResult) bool {
	if r.Message == nil {
		return false
	}
	for _, text := range []string{"preconditions", "failed to load context", "policy exception"} {
		if strings.Contains(*r.Message, text) {
			return true
		}
	}
	return false
}

// failure returns the message of a failed pattern.
func failure(message, rest string) string {
	if message == "" {
		return "validation error: " + rest
	}
	if !strings.HasSuffix(message, ".") {
		message += "."
	}
	return "validation error: " + message + " " + rest
}

func evaluatePattern(rule string, pattern any) evaluate {
	p, _ := Compile(integers(pattern), "pattern", nil)
	return func(message string, r map[string]any) (string, string) {
		v, err := p.Match(nil, nil, r)
		if err != nil {
			return "error", err.Error()
		}
		switch v.Status {
		case Pass:
			return "pass", fmt.Sprintf("validation rule '%s' passed.", rule)
		case Skip:
			return "skip", v.Message
		case Fail:
			return "fail", failure(message, fmt.Sprintf("rule %s failed at path %s", rule, v.Path))
		}
		return "error", failure(message, fmt.Sprintf("rule %s execution error: %s", rule, v.Message))
	}
}

func evaluateAlternatives(rule string, alternatives []any) evaluate {
	p, _ := CompileAlternatives(integers(alternatives), "anyPattern", nil)
	return func(message string, r map[string]any) (string, string) {
		c, err := p.Match(nil, nil, r)
		if err != nil {
			return "error", err.Error()
		}
		switch c.Status {
		case Pass:
			return "pass", fmt.Sprintf("validation rule '%s' anyPattern[%d] passed.", rule, c.Passed)
		case Skip:
			return "skip", c.Describe(rule)
		}
		return "fail", failure(message, c.Describe(rule))
	}
}

// evaluateForeach evaluates the maps in the list at the dotted path.
func evaluateForeach(rule, path string, pattern any) evaluate {
	inner := evaluatePattern(rule, pattern)
	return func(message string, r map[string]any) (string, string) {
		var list any = r
		for _, step := range strings.Split(path, ".") {
			m, _ := list.(map[string]any)
			list = m[step]
		}
		elements, _ := list.([]any)
		applied := false
		for _, e := range elements {
			m, ok := e.(map[string]any)
			if !ok {
				continue
			}
			switch status, text := inner(message, m); status {
			case "pass":
				applied = true
			case "fail":
				return "fail", "validation failure: " + text
			case "error":
				return "error", text
			}
		}
		if !applied {
			return "", ""
		}
		return "pass", "rule passed"
	}
}

func hasVariables(v any) bool { return strings.Contains(fmt.Sprint(v), "{{") }

// integers gives whole numbers in a policy the type that the policy decoder gives them.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = integers(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = integers(x)
		}
		return out
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

func documents(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split("\n"+string(b), "\n---\n")
}

func mustYAML(t *testing.T, doc string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(doc), into); err != nil {
		t.Fatal(err)
	}
}
