package compiler_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/fixed"
)

// recorded returns the folder with recorded evaluations. Without the folder, the test is skipped.
func recorded(t testing.TB) string {
	root := os.Getenv("EPHOR_CONFORMANCE")
	if root == "" {
		root = "../../../../shared/conformance"
	}
	if _, err := os.Stat(filepath.Join(root, "cel-semantics")); root == "none" || err != nil {
		t.Skip("NOT RUN: no conformance data")
	}
	return root
}

type recordedPolicy struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Variables []struct {
			Name       string `json:"name"`
			Expression string `json:"expression"`
		} `json:"variables"`
		MatchConditions []any `json:"matchConditions"`
		Validations     []struct {
			Expression        string `json:"expression"`
			MessageExpression string `json:"messageExpression"`
		} `json:"validations"`
	} `json:"spec"`
}

type recordedResult struct {
	Name, Policy, Message, Result string
}

// The values of expressions equal the recorded ones, as far as a failure message shows them.
func TestRecordedValues(t *testing.T) {
	dirs, _ := filepath.Glob(filepath.Join(recorded(t), "cel-semantics", "cel-[ec]*"))
	total, wrong := 0, 0
	for _, dir := range dirs {
		if strings.Contains(dir, "except") {
			continue
		}
		var expected struct{ Results []recordedResult }
		readJSON(t, filepath.Join(dir, "expected.json"), &expected)
		want := map[string]recordedResult{}
		for _, r := range expected.Results {
			want[r.Policy[strings.LastIndexByte(r.Policy, '/')+1:]+" "+r.Name] = r
		}
		resources := map[string]map[string]any{}
		for _, doc := range documents(t, filepath.Join(dir, "resources.yaml")) {
			var o map[string]any
			must(t, yaml.Unmarshal(doc, &o))
			if o != nil {
				resources[o["metadata"].(map[string]any)["name"].(string)] = o
			}
		}
		w := contextWorld(t, filepath.Join(dir, "context.yaml"))
		for _, doc := range documents(t, filepath.Join(dir, "policy.yaml")) {
			var p recordedPolicy
			must(t, yaml.Unmarshal(doc, &p))
			if p.Kind != "ValidatingPolicy" || len(p.Spec.Validations) != 1 || p.Spec.Validations[0].Expression != "false" || p.Spec.Validations[0].MessageExpression == "" || len(p.Spec.MatchConditions) > 0 {
				continue
			}
			for name, o := range resources {
				r, ok := want[p.Metadata.Name+" "+name]
				if !ok || r.Result != "fail" || strings.Contains(p.Spec.Validations[0].MessageExpression, "http.") {
					continue
				}
				total++
				if got := message(t, p, o, w); got != r.Message {
					wrong++
					t.Logf("%s %s: %s\n     got %s\n    want %s", filepath.Base(dir), p.Metadata.Name, p.Spec.Validations[0].MessageExpression, got, r.Message)
				}
			}
		}
	}
	t.Logf("%d of %d differ", wrong, total)
	if total < 100 || wrong*100 > total {
		t.Errorf("%d of %d values differ", wrong, total)
	}
}

func message(t *testing.T, p recordedPolicy, o map[string]any, w world.World) string {
	c := compiler.New(env.Declarations{Kind: env.Validating})
	for _, v := range p.Spec.Variables {
		if err := c.Variable(v.Name, v.Expression); err != nil {
			return "variable: " + typecheck.Summary(err)
		}
	}
	x, err := c.Compile(p.Spec.Validations[0].MessageExpression, typecheck.String)
	if err != nil {
		return typecheck.Summary(err)
	}
	request := map[string]any{
		"kind": map[string]any{"group": "example.com", "version": "v1", "kind": o["kind"]}, "resource": map[string]any{"group": "example.com", "version": "v1", "resource": strings.ToLower(o["kind"].(string)) + "s"},
		"name": o["metadata"].(map[string]any)["name"], "namespace": "default", "operation": "CREATE", "object": integers(o), "oldObject": nil, "userInfo": map[string]any{}, "dryRun": false, "options": nil,
	}
	request["requestResource"], request["requestKind"] = request["resource"], request["kind"]
	in := &run.Input{
		Object: o, OldObject: map[string]any{}, Access: env.Access{World: &w}, Source: source{request: request},
	}
	text, _, err := c.Variables().Evaluate(t.Context(), in, price.Budget).Text(x)
	switch evaluation := (*env.EvaluationError)(nil); {
	case errors.As(err, &evaluation):
		return "failed to evaluate message expression: " + evaluation.Err.Error()
	case err != nil:
		return "failed to evaluate message expression: " + err.Error()
	case strings.TrimSpace(text) == "":
		return "CEL expression validation failed at index 0"
	}
	return text
}

// integers returns the numbers in request.object as integers.
func integers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			out[k] = integers(e)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = integers(e)
		}
		return out
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
	}
	return v
}

func contextWorld(t *testing.T, file string) world.World {
	var given struct {
		Spec struct {
			Resources []map[string]any `json:"resources"`
			Images    []map[string]any `json:"images"`
		} `json:"spec"`
	}
	if text, err := os.ReadFile(file); err == nil {
		must(t, yaml.Unmarshal(text, &given))
		for i, r := range given.Spec.Resources {
			given.Spec.Resources[i] = integers(r).(map[string]any)
		}
	}
	return fixed.New(fixed.Values{
		Seed: 1, Now: func() time.Time { return time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC) },
		ContextResources: func() ([]map[string]any, error) { return given.Spec.Resources, nil },
		Globals:          world.Globals(func(context.Context, world.GlobalRequest) (any, error) { return nil, &world.NoGlobalError{} }),
		Images: world.Images{Image: func(_ context.Context, r world.ImageRequest) (map[string]any, error) {
			for _, i := range given.Spec.Images {
				if i["image"] == r.Reference {
					return i, nil
				}
			}
			return nil, errors.New("image data for " + r.Reference + " not found in the context")
		}},
	}).For(world.Cluster())
}

func readJSON(t testing.TB, file string, v any) {
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, json.Unmarshal(text, v))
}

func documents(t testing.TB, file string) (out [][]byte) {
	text, err := os.ReadFile(file)
	must(t, err)
	for _, part := range strings.Split("\n"+string(text), "\n---\n") {
		if strings.TrimSpace(part) != "" {
			out = append(out, []byte(part))
		}
	}
	return out
}
