package validating_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/familytest"
	"ephor.invalid/ephor/internal/family/validating"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
)

// TestData runs testdata/*.txtar: policy.yaml is a policy, exceptions.yaml are exceptions from it (one of the two may be missing);
// requests.yaml is a list of requests {name, operation, subresource, object, oldObject, user}. want holds the diagnostics, the rules with their resources,
// and the results for each request.
func TestData(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		var b strings.Builder
		p := &policy.Program{}
		if in.Has("policy.yaml") {
			p = validating.Family.Compile(family.Source{Object: golden.Decode[map[string]any](t, in.Text("policy.yaml"))})
		}
		for _, d := range p.Diags {
			fmt.Fprintln(&b, d)
		}
		familytest.Rules(&b, p)
		familytest.Except(&b, []*policy.Program{p}, golden.Objects(t, in.Text("exceptions.yaml")))
		for _, request := range golden.Objects(t, in.Text("requests.yaml")) {
			out := engine.Eval(t.Context(), engine.Input{Selections: familytest.Select(p), Request: familytest.Review(request), Stages: policy.StageValidate})
			fmt.Fprintf(&b, "%s:", request["name"])
			familytest.Results(&b, &out)
			fmt.Fprintf(&b, " → allowed: %v\n", engine.Decide(&out, engine.ValidateWording).Allowed)
		}
		return b.String()
	})
}

// With OnlyListed, and for scans, a policy on Pods is asked about the resources that it lists only.
func TestOnlyListed(t *testing.T) {
	object := golden.Decode[map[string]any](t, []byte(`{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: p}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]}, validations: [{expression: "true"}]}}`))
	for _, c := range []struct {
		family.Options
		want bool
	}{{family.Options{}, true}, {family.Options{CommandLine: true}, true}, {family.Options{OnlyListed: true}, false}, {family.Options{Existing: true}, false}} {
		p := validating.Family.Compile(family.Source{Object: object, Options: c.Options})
		unlisted := slices.ContainsFunc(p.Rules[0].Targets, func(t policy.Target) bool { return t.Unlisted })
		extra := slices.ContainsFunc(p.Webhooks, func(w policy.Webhook) bool { return w.Extra })
		if unlisted != c.want || extra != c.want {
			t.Errorf("%+v: unlisted resources %v, webhook %v", c.Options, unlisted, extra)
		}
	}
}
