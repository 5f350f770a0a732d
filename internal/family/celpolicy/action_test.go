package celpolicy

import (
	"context"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/policy"
)

// A cluster-wide policy may have other actions in some namespaces.
func TestActionsInNamespaces(t *testing.T) {
	labels := func() (map[string]string, error) {
		return map[string]string{"stage": "test"}, context.Cause(context.Background())
	}
	for _, c := range []struct {
		what, text, namespace string // of the policy
		want                  string // of the namespaces dev-a, and shop with the label stage=test
		mistake               string
	}{
		{"by name", `[{"actions": ["Audit"], "namespaces": ["dev-*"]}]`, "", "Audit Enforce", ""},
		{"by label", `[{"actions": ["Audit", "Warn"], "namespaceSelector": {"matchLabels": {"stage": "test"}}}]`, "", "Audit Audit", ""},
		{"the first counts", `[{"actions": ["Deny"], "namespaces": ["dev-a"]}, {"actions": ["Audit"], "namespaces": ["*"]}]`, "", "Enforce Audit", ""},
		{"a namespaced policy", `[{"actions": ["Audit"], "namespaces": ["*"]}]`, "shop", "Enforce Enforce", "only a cluster-wide policy"},
		{"not JSON", `Audit`, "", "Enforce Enforce", "must be a JSON list"},
		{"a misspelt restriction", `[{"actions": ["Audit"], "namespace": ["a"]}]`, "", "Enforce Enforce", `unknown field "namespace"`},
		{"all namespaces", `[{"actions": ["Audit"]}]`, "", "", "selects no namespaces"},
		{"no action", `[{"namespaces": ["a"]}]`, "", "", "has no actions"},
		{"an unknown action", `[{"actions": ["Enforce"], "namespaces": ["a"]}]`, "", "", `there is no action "Enforce"`},
		{"a mistake in the selector", `[{"actions": ["Audit"], "namespaceSelector": {"matchLabels": {"a b": "c"}}}]`, "", "", "item 0: "},
	} {
		rule, compiler := &policy.Rule{}, celrule.New(env.Declarations{Kind: env.Validating}, nil)
		p := &policy.Program{Namespace: c.namespace, Annotations: map[string]string{ActionsAnnotation: c.text}}
		SetActions(rule, p, compiler, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, "spec")
		var got []string
		for _, namespace := range []string{"dev-a", "shop"} {
			action, err := policy.ActionFor(rule, namespace, labels)
			if err != nil {
				t.Error(err)
			}
			got = append(got, action.String())
		}
		if text := strings.Join(got, " "); c.want != "" && text != c.want {
			t.Errorf("%s: %s, want %s", c.what, text, c.want)
		}
		said := ""
		for _, d := range compiler.Diags {
			said += d.String()
		}
		if (said == "") != (c.mistake == "") || !strings.Contains(said, c.mistake) {
			t.Errorf("%s: %q, want %q", c.what, said, c.mistake)
		}
	}
}
