package preflight

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/kubeversion"
)

// Every kind of findings is in the guide.
func TestUpgradeKinds(t *testing.T) {
	text, err := os.ReadFile("../../docs/operating/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range UpgradeKinds() {
		if !strings.Contains(string(text), "`"+k.Code+"`") || k.Doc == "" {
			t.Errorf("docs/operating/versions.md does not name %s", k.Code)
		}
	}
}

// An upgrade of Kubernetes lists the policies whose meaning changes, that name kinds which go, and whose requests no longer arrive.
func TestUpgrade(t *testing.T) {
	r := &recorded{t: t, refuses: map[string]bool{}}
	r.read([]byte(`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: standard}
spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {podSecurity: {level: baseline, version: latest}}}]}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: reviews}
spec: {rules: [{name: r, match: {any: [{resources: {kinds: [SubjectAccessReview]}}]}, validate: {message: m, deny: {}}}]}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: goes}
spec: {rules: [{name: r, match: {any: [{resources: {kinds: [admissionregistration.k8s.io/v1alpha1/MutatingAdmissionPolicy]}}]}, validate: {message: m, deny: {}}}]}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: stays}
spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod, MutatingAdmissionPolicy]}}]}, validate: {message: m, deny: {}}}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: includes}
spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "object.metadata.finalizers.includes('a')"}]}
`))
	c := &Cluster{Reader: r, Kinds: kinds{}, Version: "v1.36.3", Namespace: "kyverno", Log: slog.New(slog.DiscardHandler), Now: time.Now}
	for _, step := range []struct {
		target int
		want   []string
	}{
		{36, []string{"note kubernetes-version APIServer"}},
		{37, []string{
			"stops meaning-changes ClusterPolicy/standard", "stops meaning-changes ValidatingAdmissionPolicy/includes", "stops requests-stop ClusterPolicy/reviews",
			"note static-policies APIServer",
		}},
		{38, []string{
			"stops kind-removed ClusterPolicy/goes", "stops meaning-changes ClusterPolicy/standard", "stops meaning-changes ValidatingAdmissionPolicy/includes",
			"stops requests-stop ClusterPolicy/reviews", "note kubernetes-version APIServer", "note static-policies APIServer",
		}},
	} {
		if got := lines(Upgrade(t.Context(), c, kubeversion.Minor(step.target))); !slices.Equal(got, step.want) {
			t.Errorf("to 1.%d:\n%s\nwant\n%s", step.target, strings.Join(got, "\n"), strings.Join(step.want, "\n"))
		}
	}
}
