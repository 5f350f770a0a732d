package pattern

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestSemantics compares Match with what the reference implementation answered for random policies on random
// resources: status and message. Results that
// preconditions or deny decided need the whole pipeline and are left to it.
func TestSemantics(t *testing.T) {
	data := os.Getenv("EPHOR_CONFORMANCE")
	if data == "" || data == "none" {
		t.Skip("EPHOR_CONFORMANCE names no data folder: the recorded semantics are not compared")
	}
	dirs, _ := filepath.Glob(filepath.Join(data, "differential", "semantics-*"))
	if len(dirs) == 0 {
		t.Fatalf("no differential/semantics-* below %s", data)
	}
	compared := 0
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { compared += compareFolder(t, dir) })
	}
	t.Logf("%d results compared", compared)
	if compared == 0 {
		t.Fatal("nothing was compared")
	}
}

type recordedPolicy struct {
	Metadata struct{ Name string }
	Spec     struct {
		Rules []struct {
			Name          string
			Preconditions any
			Validate      struct {
				Message    string
				Pattern    any
				AnyPattern []any
				Deny       any
				Foreach    []struct {
					List    string
					Pattern any
				}
			}
		}
	}
}

type recordedResult struct {
	Policy, Rule, Name, Result string
	Message                    *string
}

func compareFolder(t *testing.T, dir string) int {
	resources := map[string]map[string]any{}
	for _, doc := range documents(t, filepath.Join(dir, "resources.yaml")) {
		var r map[string]any
		mustYAML(t, doc, &r) // encoding/json decodes every number as float64, as the CLI does
		name := r["metadata"].(map[string]any)["name"].(string)
		resources[name] = r
	}
	var expected struct{ Results []recordedResult }
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &expected); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]recordedResult{}
	for _, r := range expected.Results {
		if want[r.Policy] == nil {
			want[r.Policy] = map[string]recordedResult{}
		}
		want[r.Policy][r.Name] = r
	}
	compared, bad := 0, 0
	for _, doc := range documents(t, filepath.Join(dir, "policy.yaml")) {
		var p recordedPolicy
		mustYAML(t, doc, &p)
		rule := p.Spec.Rules[0]
		if len(p.Spec.Rules) != 1 {
			continue
		}
		if want[p.Metadata.Name] == nil {
			continue // refused when it was loaded, or nothing applies
		}
		judge := judgeFor(rule.Name, rule.Validate.Pattern, rule.Validate.AnyPattern)
		if len(rule.Validate.Foreach) == 1 && rule.Validate.Foreach[0].Pattern != nil {
			judge = judgeForeach(rule.Name, rule.Validate.Foreach[0].List, rule.Validate.Foreach[0].Pattern)
		}
		if judge == nil {
			continue
		}
		names := make([]string, 0, len(resources))
		for name := range resources {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			message := strings.ReplaceAll(rule.Validate.Message, "{{ request.object.metadata.name }}", name)
			status, text := judge(message, resources[name])
			w := want[p.Metadata.Name][name]
			if rule.Preconditions != nil && preconditionsDecided(w) {
				continue
			}
			compared++
			if status != w.Result || w.Message != nil && text != *w.Message {
				if bad++; bad <= 8 {
					raw, _ := json.Marshal(rule.Validate)
					res, _ := json.Marshal(resources[name]["spec"])
					wm := ""
					if w.Message != nil {
						wm = *w.Message
					}
					t.Errorf("%s %s\n got %s %s\nwant %s %s\n pattern %s\n resource %s", p.Metadata.Name, name, status, text, w.Result, wm, raw, res)
				}
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d results differ", bad, compared)
	}
	return compared
}

// preconditionsDecided reports whether the recorded result says nothing of the pattern.
func preconditionsDecided(r recordedResult) bool {
	return r.Message == nil || r.Result == "" || strings.Contains(*r.Message, "preconditions")
}

// judgeFor composes the messages of validate.pattern and validate.anyPattern (language reference §4.1).
func judgeFor(rule string, pattern any, alternatives []any) func(string, map[string]any) (string, string) {
	switch {
	case pattern != nil:
		p, _ := Compile(integers(pattern), "pattern")
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
				return "fail", fmt.Sprintf("validation error: %s. rule %s failed at path %s", message, rule, v.Path)
			}
			return "error", fmt.Sprintf("validation error: %s. rule %s execution error: %s", message, rule, v.Message)
		}
	case alternatives != nil:
		var ps []*Pattern
		for _, a := range alternatives {
			p, _ := Compile(integers(a), "pattern")
			ps = append(ps, p)
		}
		return func(message string, r map[string]any) (string, string) {
			var failed, skipped []string
			for i, p := range ps {
				v, err := p.Match(nil, nil, r)
				if err != nil {
					return "error", err.Error()
				}
				switch v.Status {
				case Pass:
					return "pass", fmt.Sprintf("validation rule '%s' anyPattern[%d] passed.", rule, i)
				case Skip:
					skipped = append(skipped, fmt.Sprintf("rule %s[%d] skipped: %s", rule, i, v.Message))
				case Fail:
					failed = append(failed, fmt.Sprintf("rule %s[%d] failed at path %s", rule, i, v.Path))
				case Error:
					failed = append(failed, fmt.Sprintf("rule %s[%d] failed: %s", rule, i, v.Message))
				}
			}
			if len(failed) == 0 {
				return "skip", strings.Join(skipped, " ")
			}
			return "fail", fmt.Sprintf("validation error: %s. %s", message, strings.Join(failed, " "))
		}
	}
	return nil
}

// judgeForeach composes the messages of validate.foreach over a list of maps with a pattern (§4.8).
func judgeForeach(rule, list string, pattern any) func(string, map[string]any) (string, string) {
	inner := judgeFor(rule, pattern, nil)
	return func(message string, r map[string]any) (string, string) {
		spec, _ := r["spec"].(map[string]any)
		elements, _ := spec[strings.TrimPrefix(list, "request.object.spec.")].([]any)
		applied := false
		for _, e := range elements {
			m, ok := e.(map[string]any)
			if !ok {
				continue
			}
			status, text := inner(message, m)
			switch status {
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

// integers gives whole numbers of a policy the type that the policy decoder gives them.
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
