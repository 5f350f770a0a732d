package rule_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/exception"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rule"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/value"
)

// TestData runs testdata/*/*.txtar. rule.yaml is one rule, requests.yaml a list of requests {name, operation, object, oldObject, user, scan},
// and exceptions.yaml (optional) a list of exceptions that are joined to the rule. want holds the diagnostics of the rule and, for each
// request, `name: status: message` (and the changes of a mutation, as a JSON patch) or `name: no result`.
func TestData(t *testing.T) {
	golden.Run(t, "testdata/*/*.txtar", func(t *testing.T, in golden.Inputs) string {
		var b strings.Builder
		r := compileRule(t, in.Text("rule.yaml"), &b)
		for _, object := range golden.Objects(t, in.Text("exceptions.yaml")) {
			e, diags := exception.Compile(object, family.Options{})
			for _, d := range diags {
				fmt.Fprintln(&b, "exception:", d)
			}
			r.Exceptions = append(r.Exceptions, e)
		}
		for _, request := range golden.Objects(t, in.Text("requests.yaml")) {
			fmt.Fprintf(&b, "%s: %s\n", request["name"], evaluate(t, r, request))
		}
		return b.String()
	})
}

func compileRule(t testing.TB, text []byte, diags *strings.Builder) *policy.Rule {
	t.Helper()
	var authored kyvernov1.Rule
	list := strict.Decode(golden.Decode[map[string]any](t, text), &authored)
	r, moreDiags := rule.Compile(&authored, rule.Input{Path: "rules[0]"})
	for _, d := range append(list, moreDiags...) {
		if strings.HasSuffix(d.Path, ".keys.publicKeys") || strings.HasSuffix(d.Path, ".certificates.cert") || strings.HasSuffix(d.Path, ".certificates.certChain") ||
			diags == nil && strings.HasSuffix(d.Path, ".keyless.roots") {
			continue // the tests use letters as keys and certificates
		}
		if diags != nil {
			fmt.Fprintln(diags, "diagnostic:", d)
		} else {
			t.Fatal(d)
		}
	}
	return r
}

func evaluate(t *testing.T, r *policy.Rule, in map[string]any) string {
	req := request(in)
	if r.SkipOnDelete && req.Operation == policy.Delete {
		return "no result"
	}
	ok, err := r.Match(context.Background(), req)
	if err != nil {
		return "match error: " + err.Error()
	}
	if !ok {
		return "not matched"
	}
	sc := call(req, r)
	sc.Plan, sc.Env.World = true, clusterOf(in)
	if r.Kind == "validate.manifests" {
		sc.Env.World.Signatures = manifestVerifier(t)
	}
	if ns, ok := in["policyNamespace"].(string); ok {
		sc.Program.Namespace = ns
	}
	y := r.Eval(sc)
	work := workText(y.Work)
	if y.Status == policy.StatusNone {
		return "no result" + work
	}
	if y.Status == policy.StatusPass && y.Path != "" {
		t.Errorf("a pass has the path %s", y.Path)
	}
	out := y.Status.String() + ": " + y.Message
	if len(y.Exceptions) > 0 {
		out += " " + fmt.Sprint(y.Exceptions)
	}
	if y.Object != nil && y.Status == policy.StatusPass {
		made, err := y.Object.Value()
		if err != nil {
			t.Fatal(err)
		}
		out += " " + string(patch.AppendJSON(nil, patch.Diff(in["object"], made)))
	}
	if len(y.Properties) > 0 {
		out += " " + value.JSON(anyMap(y.Properties))
	}
	for _, also := range y.Also {
		out += "; also " + also.Status.String() + ": " + also.Message
	}
	return out + work
}

func anyMap(in map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range in {
		out[k] = v
	}
	return out
}

func request(in map[string]any) *policy.Request {
	req := &policy.Request{Review: policy.Review{Operation: policy.Create}}
	if scan, _ := in["scan"].(bool); scan {
		req.Origin = policy.FromScan
	}
	if op, ok := in["operation"].(string); ok {
		req.Operation = policy.Operation(op)
	}
	about := in["object"]
	if object, ok := in["object"]; ok {
		req.Object = value.Of(object)
	}
	if old, ok := in["oldObject"]; ok {
		req.OldObject = value.Of(old)
		if about == nil {
			about = old
		}
	}
	if name, ok := in["user"].(string); ok {
		req.User = &policy.User{Username: name}
	}
	object, _ := about.(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	req.GVK = schema.FromAPIVersionAndKind(apiVersion, kind)
	req.RequestGVK = req.GVK
	req.Name, _ = metadata["name"].(string)
	req.Namespace, _ = metadata["namespace"].(string)
	if sub, ok := in["subresource"].(string); ok { // a subresource of a Pod
		req.Subresource, req.GVK = sub, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
		req.Name, _ = in["name"].(string)
		req.Namespace, _ = in["namespace"].(string)
	}
	return req
}

func call(req *policy.Request, r *policy.Rule) *policy.Call {
	env := &evalenv.Env{Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes)}
	return &policy.Call{Env: env, Request: req, Program: &policy.Program{Name: "p"}, Rule: r}
}

// TestEveryKindIsDocumentedAndTested checks that each kind in the registry has everything that a contributor must provide.
func TestEveryKindIsDocumentedAndTested(t *testing.T) {
	for _, k := range rule.Kinds() {
		if !strings.HasSuffix(k.Doc, ".") || len(k.Doc) < 20 {
			t.Errorf("%s: the documentation is no sentence: %q", k.Name, k.Doc)
		}
		dir := "testdata/" + strings.ToLower(strings.ReplaceAll(k.Field(), ".", "_"))
		if files, _ := filepath.Glob(dir + "/*.txtar"); len(files) == 0 {
			t.Errorf("%s: no test data in %s", k.Name, dir)
		}
	}
}
