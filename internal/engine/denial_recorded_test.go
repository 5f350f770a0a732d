package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/policy"
)

// Denials have the recorded layout, byte for byte: each recorded text is parsed into policies, rules and messages, and composed again.
func TestRecordedDenials(t *testing.T) {
	if os.Getenv("EPHOR_CONFORMANCE") == "none" {
		t.Skip("EPHOR_CONFORMANCE=none: the recordings are not compared")
	}
	folder := os.Getenv("EPHOR_REFERENCE")
	if folder == "" {
		folder = filepath.Join("..", "shared", "reference")
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join("..", "..", folder)
	}
	texts := map[string]string{}
	files, err := filepath.Glob(filepath.Join(folder, "recordings", "denied-*.txt"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d recorded refusals in %s: %v", len(files), folder, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		_, message, ok := strings.Cut(string(text), "denied the request: ")
		if !ok {
			t.Fatalf("%s is no refusal", f)
		}
		texts[filepath.Base(f)] = strings.TrimRight(message, "\n") + "\n" // kubectl ends its output with a newline of its own
	}
	var review struct {
		Response struct{ Status struct{ Message string } }
	}
	text, err := os.ReadFile(filepath.Join(folder, "recordings", "review-response-bad.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &review); err != nil {
		t.Fatal(err)
	}
	texts["review-response-bad.json"] = review.Response.Status.Message
	for name, want := range texts {
		head, body, ok := strings.Cut(want, " was blocked due to the following policies \n\n")
		if !ok {
			t.Fatalf("%s: %q", name, want)
		}
		var policies map[string]map[string]string
		if err := yaml.UnmarshalStrict([]byte(body), &policies); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		object := strings.Split(strings.TrimPrefix(head, "\n\nresource "), "/")
		out := policy.Outcome{Request: &policy.Request{Review: policy.Review{GVK: schema.GroupVersionKind{Kind: object[0]}, Namespace: object[1], Name: object[2]}}}
		for p, rules := range policies {
			program := &policy.Program{Name: p}
			for r, message := range rules {
				out.Results = append(out.Results, policy.Result{
					Program: program, Rule: &policy.Rule{Name: r}, Action: policy.Deny, Yield: policy.Yield{Status: policy.StatusFail, Message: message},
				})
			}
		}
		// A map returns its keys in any order; results are ordered by policy and rule.
		slices.SortFunc(out.Results, func(a, b policy.Result) int {
			return strings.Compare(b.Program.Name+b.Rule.Name, a.Program.Name+a.Rule.Name)
		})
		if got := Decide(&out, ValidateWording); got.Allowed || got.Message != want {
			t.Errorf("%s: got\n%q\nwant\n%q", name, got.Message, want)
		}
	}
}
