package intake

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
)

// Another version of the API server compiles everything again. A policy whose meaning changes says what changed; others do not.
func TestRecompile(t *testing.T) {
	c, server := catalog.New(), kubeversion.Minor(36)
	p := NewPolicies(PolicyOptions{Kinds: Requests(), Catalog: c, Server: func() kubeversion.Minor { return server }, Log: slog.New(slog.DiscardHandler)})
	for _, text := range []string{
		`{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: includes, uid: a}, spec: {matchConstraints: {resourceRules: [
			{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "object.metadata.finalizers.includes('a')"}]}}`,
		`{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: plain, uid: b}, spec: {matchConstraints: {resourceRules: [
			{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "object.metadata.name != 'a'"}]}}`,
		`{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: latest, uid: c}, spec: {rules: [
			{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {podSecurity: {level: baseline, version: latest}}}]}}`,
		`{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: pinned, uid: d}, spec: {rules: [
			{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {podSecurity: {level: baseline, version: v1.36}}}]}}`,
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		p.objects.set(u)
	}
	program := func(kind, name string) *policy.Program {
		t.Helper()
		program := c.Snapshot().Get(catalog.ID{Kind: kind, Name: name})
		if program == nil {
			t.Fatal("no program of ", name)
		}
		return program
	}
	before := program("ValidatingPolicy", "includes")
	hint := ""
	for _, d := range before.Diags.Errors() {
		hint += d.Hint
	}
	if !before.Diags.HasErrors() || !strings.Contains(hint, "since Kubernetes 1.37; the API server has 1.36") {
		t.Errorf("a function of 1.37 in 1.36: %v, hint %q", before.Diags, hint)
	}
	hash := c.Snapshot().Hash()
	server = 37
	p.Recompile()
	if hash == c.Snapshot().Hash() {
		t.Error("scans do not notice the new version")
	}
	for name, want := range map[string]string{"includes": "no longer a mistake", "latest": "sysctls", "plain": "", "pinned": ""} {
		kind := "ValidatingPolicy"
		if name == "latest" || name == "pinned" {
			kind = "ClusterPolicy"
		}
		got := program(kind, name)
		if got.Diags.HasErrors() || got.Server != 37 || (got.Changed != nil) != (want != "") {
			t.Errorf("%s: %v of %v, %v", name, got.Diags, got.Server, got.Changed)
		}
		if got.Changed != nil && !strings.Contains(got.Changed.String(), want) {
			t.Errorf("%s: %s, want %s", name, got.Changed, want)
		}
	}
	again := program("ValidatingPolicy", "includes").Changed
	p.Recompile()
	if program("ValidatingPolicy", "includes").Changed != again {
		t.Error("the change is forgotten without another one")
	}
}
