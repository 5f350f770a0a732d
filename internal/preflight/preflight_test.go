package preflight

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/config/crds"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

// kinds are the kinds that the recorded API server serves in addition to those of Kubernetes.
type kinds struct{}

func (kinds) Find(t policy.Target) ([]discovery.Resource, error) {
	switch t.Kind {
	case "Gadget", "Widget":
		return []discovery.Resource{{Group: "example.com", Version: "v1", Kind: t.Kind, Resource: strings.ToLower(t.Kind) + "s", Namespaced: true, Listable: true}}, nil
	}
	return nil, nil
}
func (kinds) BodyOf(string) []string { return nil }
func (kinds) KindFor(context.Context, apischema.GroupVersionResource) (apischema.GroupVersionKind, error) {
	return apischema.GroupVersionKind{}, nil
}

// kyverno returns a recorded installation: the objects of testdata, all definitions as Helm leaves them (half of them kept), and a
// release.
func kyverno(t *testing.T, config map[string]any, status string) (*recorded, *Cluster) {
	t.Helper()
	r := &recorded{t: t, refuses: map[string]bool{}}
	text, err := os.ReadFile("testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r.read(text)
	for i, crd := range definitions(t) {
		crd := crd.DeepCopy()
		r.objects = append(r.objects, crd)
		annotations := map[string]string{"meta.helm.sh/release-name": "kyverno", "meta.helm.sh/release-namespace": "kyverno"}
		if i%2 == 1 {
			annotations["helm.sh/resource-policy"] = "keep"
		}
		crd.SetAnnotations(annotations)
	}
	r.release(1, map[string]any{"old": true}, "superseded")
	r.release(2, config, status)
	return r, &Cluster{
		Reader: r, Kinds: kinds{}, Version: "v1.34.1", Namespace: "kyverno", Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) },
	}
}

// A release of Kyverno's chart of policies is a note with the commands that adopt it; values that the chart of Ephor refuses are named.
func TestReleaseOfPolicies(t *testing.T) {
	r, c := kyverno(t, nil, "deployed")
	r.releaseOf("kyverno-policies", 1, map[string]any{"podSecurityStandard": "restricted", "validationFailureActionOverrides": map[string]any{"disallow-host-path": []any{}}, "podSecurityStandards": "x"}, "deployed")
	texts := ""
	for _, f := range Run(t.Context(), c).Findings {
		if f.Object.Name == "sh.helm.release.v1.kyverno-policies.v1" {
			texts += string(f.Severity) + " " + f.Code + ": " + f.Message + "; " + strings.Join(f.Commands, "; ") + "\n"
		}
	}
	for _, part := range []string{"stops values-refused: the value podSecurityStandards: ", "note helm-release: ", "helm upgrade kyverno-policies charts/ephor-policies -n kyverno -f policies-values.yaml"} {
		if !strings.Contains(texts, part) {
			t.Errorf("not said: %s\nin\n%s", part, texts)
		}
	}
	if strings.Count(texts, "\n") != 2 {
		t.Errorf("found\n%s", texts)
	}
}

var decoded []*unstructured.Unstructured

// definitions returns Ephor's definitions without their schemas, which no check reads.
func definitions(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	if decoded == nil {
		r := &recorded{t: t}
		for _, name := range crds.Names() {
			r.read(crds.File(name))
		}
		for _, crd := range r.objects {
			versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range versions {
				delete(v.(map[string]any), "schema")
			}
			if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
				t.Fatal(err)
			}
		}
		decoded = r.objects
	}
	return decoded
}

// release adds a revision of the release as Helm stores it.
func (r *recorded) release(version int, config map[string]any, status string) {
	r.releaseOf("kyverno", version, config, status)
}

// releaseOf adds a release of a chart, which has its name.
func (r *recorded) releaseOf(chart string, version int, config map[string]any, status string) {
	text, err := json.Marshal(map[string]any{
		"name": chart, "version": version, "config": config, "info": map[string]any{"status": status},
		"chart": map[string]any{"metadata": map[string]any{"name": chart, "version": "3.9.1"}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		r.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		r.t.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(packed.Bytes())))
	revision := string(rune('0' + version))
	r.read([]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: sh.helm.release.v1." + chart + ".v" + revision + ", namespace: kyverno, labels: {owner: helm, name: " + chart + ", version: '" + revision +
		"'}}\ntype: helm.sh/release.v1\ndata: {release: " + data + "}\n"))
}

// lines returns the findings, one per line, without those about definitions that are not kept.
func lines(r *Report) (out []string) {
	for _, f := range r.Findings {
		if f.Code != "definition-not-kept" {
			out = append(out, string(f.Severity)+" "+f.Code+" "+f.Object.String())
		}
	}
	return out
}

func TestRun(t *testing.T) {
	_, c := kyverno(t, map[string]any{"nonsense": 1, "cleanupController": map[string]any{"image": map[string]any{"tag": "x"}, "replicas": "many"}}, "deployed")
	got := Run(t.Context(), c)
	want := []string{
		"lost policy-not-enforced ClusterPolicy/broken",
		"stops certificate-unusable Secret/kyverno/kyverno-svc.kyverno.svc.kyverno-tls-pair",
		"stops exception-not-applied PolicyException/default/e",
		"stops init-container Deployment/kyverno/kyverno-admission-controller",
		"stops right-missing ClusterPolicy/makes-gadgets",
		"stops values-refused Secret/kyverno/sh.helm.release.v1.kyverno.v2",
		"stops values-refused Secret/kyverno/sh.helm.release.v1.kyverno.v2",
		"stops webhook-left-over MutatingWebhookConfiguration/kyverno-old-mutating-webhook-cfg",
		"stops webhook-unanswered ValidatingWebhookConfiguration/kyverno-resource-validating-webhook-cfg",
		"note field-manager ConfigMap/kyverno/kyverno",
		"note field-manager Deployment/kyverno/kyverno-admission-controller",
		"note helm-release Secret/kyverno/sh.helm.release.v1.kyverno.v2",
		"note lease-held Lease/kyverno/kyverno",
		"note policy-sees-more ValidatingPolicy/updates",
		"note reports-adopted PolicyReport",
		"note request-unfinished UpdateRequest/kyverno",
		"note secret-paths MutatingWebhookConfiguration/kyverno-verify-mutating-webhook-cfg",
		"note setting-unread ConfigMap/kyverno/kyverno",
		"note values-without-effect Secret/kyverno/sh.helm.release.v1.kyverno.v2",
	}
	if have := lines(got); !slices.Equal(have, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	if n, half := len(got.Findings)-len(want), (len(crds.Names())+1)/2; n != half {
		t.Errorf("%d definitions are not kept, want %d", n, half)
	}
	if got.Safe() {
		t.Error("the switch is called safe")
	}
	texts := map[string]string{}
	for _, f := range got.Findings {
		texts[f.Code] += f.Message + "\n" + strings.Join(f.Commands, "\n") + "\n"
	}
	for code, parts := range map[string][]string{
		"definition-not-kept":   {"Helm deletes it", "its 4 objects", "its 2 objects", "it has no objects now", "kubectl annotate --overwrite crd clusterpolicies.kyverno.io helm.sh/resource-policy=keep"},
		"policy-not-enforced":   {"spec.rules[0].validate.pattern"},
		"right-missing":         {"example.com/v1/Gadget", "system:serviceaccount:kyverno:kyverno-background-controller", "rbac.kyverno.io/aggregate-to-background-controller=true"},
		"values-refused":        {"cleanupController.replicas", "nonsense", "helm get values kyverno -n kyverno"},
		"values-without-effect": {"cleanupController.image"},
		"field-manager":         {"kubectl-edit wrote data.excludeGroups"},
		"webhook-unanswered":    {"kyverno/kyverno-svc", "kubectl delete validatingwebhookconfiguration kyverno-resource-validating-webhook-cfg"},
		"lease-held":            {"kyverno-admission-controller-0", "3s ago"},
		"request-unfinished":    {"1 of them are Pending"},
		"policy-sees-more":      {"pods/ephemeralcontainers, requests for pods/resize"},
		"setting-unread":        {"notAKey"},
		"secret-paths":          {"webhooks.secretPaths=false"},
	} {
		for _, part := range parts {
			if !strings.Contains(texts[code], part) {
				t.Errorf("%s does not say %q:\n%s", code, part, texts[code])
			}
		}
	}
}

// T22: each namespaced policy that reads registries is named, unless the values keep its login.
func TestT22PoliciesThatLoseTheirLogin(t *testing.T) {
	const policies = `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: signed, namespace: team}
spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, verifyImages: [{imageReferences: ["*"], mutateDigest: false, attestors: [{entries: [{keys: {secret: {name: k, namespace: team}}}]}]}]}]}
---
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: data, namespace: team}
spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, context: [{name: image, imageRegistry: {reference: "{{ request.object.spec.containers[0].image }}"}}], validate: {deny: {conditions: {all: [{key: "{{ image.manifest.schemaVersion }}", operator: Equals, value: 1}]}}}}]}
---
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: labels, namespace: team}
spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {pattern: {metadata: {labels: {team: "?*"}}}}}]}
---
apiVersion: policies.kyverno.io/v1
kind: NamespacedValidatingPolicy
metadata: {name: user, namespace: team}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "image.getMetadata(object.spec.containers[0].image).config.config.User != 'root'"}]
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: cluster}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "image.getMetadata(object.spec.containers[0].image).config.config.User != 'root'"}]
`
	for _, c := range []struct {
		values map[string]any
		want   string
	}{
		{nil, "NamespacedValidatingPolicy/team/user Policy/team/data Policy/team/signed"},
		{map[string]any{"features": map[string]any{"registryClient": map[string]any{"namespacedPoliciesUseOperatorLogin": true}}}, ""},
	} {
		r, cluster := kyverno(t, c.values, "deployed")
		r.read([]byte(policies))
		var found []string
		for _, f := range Run(t.Context(), cluster).Findings {
			switch f.Code {
			case "policy-without-login":
				found = append(found, f.Object.String())
			case "policy-not-enforced":
				if f.Object.Namespace == "team" || f.Object.Name == "cluster" {
					t.Error(f)
				}
			}
		}
		if got := strings.Join(found, " "); got != c.want {
			t.Errorf("found are %q, want %q", got, c.want)
		}
	}
}

// Keep sets the annotations of exactly the definitions that are not kept; afterwards no definition is a finding.
func TestKeep(t *testing.T) {
	r, c := kyverno(t, nil, "deployed")
	for _, o := range r.objects {
		if o.GetName() == "policies.kyverno.io" {
			o.SetAnnotations(map[string]string{"argocd.argoproj.io/tracking-id": "x", "argocd.argoproj.io/sync-options": "Replace=true"})
			o.SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "x"})
		}
	}
	before, err := json.Marshal(r.objects)
	if err != nil {
		t.Fatal(err)
	}
	report := Run(t.Context(), c)
	if after, err := json.Marshal(r.objects); err != nil || !bytes.Equal(before, after) {
		t.Fatal("Run changed something", err)
	}
	done, err := PreserveDefinitions(t.Context(), r, report)
	if err != nil {
		t.Fatal(err)
	}
	if len(done) != report.count("definition-not-kept") || len(done) == 0 || !slices.Contains(done, "policies.kyverno.io") {
		t.Errorf("annotated %v", done)
	}
	if again := Run(t.Context(), c); again.count("definition-not-kept") != 0 {
		t.Error("definitions are found again")
	}
	for _, o := range r.objects {
		if o.GetName() == "policies.kyverno.io" && (o.GetAnnotations()["argocd.argoproj.io/sync-options"] != "Replace=true,Prune=false" || o.GetAnnotations()["kustomize.toolkit.fluxcd.io/prune"] != "disabled") {
			t.Errorf("annotations %v", o.GetAnnotations())
		}
	}
}

// Argo CD tracks objects by a label of the application, unless it is configured to use an annotation: then only the field manager shows
// that it applies a definition.
func TestArgoCDTracksByLabel(t *testing.T) {
	for options, kept := range map[string]bool{"": false, "Replace=true": false, "Prune=false": true, "Replace=true, Prune=false": true} {
		r, c := kyverno(t, nil, "deployed")
		for _, o := range r.objects {
			if o.GetName() != "policies.kyverno.io" {
				continue
			}
			o.SetLabels(map[string]string{"app.kubernetes.io/instance": "kyverno"})
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "argocd-controller", Operation: metav1.ManagedFieldsOperationApply}})
			if o.SetAnnotations(nil); options != "" {
				o.SetAnnotations(map[string]string{"argocd.argoproj.io/sync-options": options})
			}
		}
		var codes []string
		for _, f := range Run(t.Context(), c).Findings {
			if f.Object.Name == "policies.kyverno.io" {
				codes = append(codes, f.Code)
			}
		}
		want := []string{"definition-not-kept"}
		if kept {
			want = nil
		}
		if !slices.Equal(codes, want) {
			t.Errorf("%q: %q, want %q", options, codes, want)
		}
	}
}

func (r *Report) count(code string) (n int) {
	for _, f := range r.Findings {
		if f.Code == code {
			n++
		}
	}
	return n
}

// Missing rights to read are a finding, and never "nothing found".
func TestUnreadableKinds(t *testing.T) {
	r, c := kyverno(t, nil, "pending-upgrade")
	if got := Run(t.Context(), c); got.count("not-checked") != 0 || got.count("helm-release-pending") != 1 {
		t.Error(lines(got))
	}
	for _, kind := range []string{
		"CustomResourceDefinition", "SecretList", "ConfigMap", "DeploymentList", "ClusterRoleList", "LeaseList", "EndpointSliceList",
		"ValidatingWebhookConfigurationList", "ClusterPolicyList", "UpdateRequestList",
	} {
		r.refuses = map[string]bool{kind: true}
		if got := Run(t.Context(), c); got.count("not-checked") == 0 || got.Count(Unknown) != got.count("not-checked") {
			t.Errorf("%s may not be read: %v", kind, lines(got))
		}
	}
	r.refuses = nil
	c.Version = "v1.29.4"
	if got := Run(t.Context(), c); got.count("kubernetes-version") != 1 {
		t.Error(lines(got))
	}
	c.Version = "?"
	if got := Run(t.Context(), c); got.count("not-checked") != 1 {
		t.Error(lines(got))
	}
}

// An installation without objects of Kyverno has no findings.
func TestNothing(t *testing.T) {
	_, c := kyverno(t, nil, "deployed")
	c.Reader = &recorded{t: t}
	if got := Run(context.Background(), c); len(got.Findings) != 0 || !got.Safe() {
		t.Error(lines(got))
	}
}

// Every code that a check uses is documented, and the guide names it.
func TestKinds(t *testing.T) {
	guide, err := os.ReadFile("../../docs/migrating/coming-from-kyverno.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Kinds() {
		if !strings.Contains(string(guide), "`"+k.Code+"`") {
			t.Errorf("docs/migrating/coming-from-kyverno.md does not name %s", k.Code)
		}
	}
	r, c := kyverno(t, map[string]any{"nonsense": 1}, "pending-upgrade")
	r.refuses["LeaseList"] = true
	for _, f := range Run(t.Context(), c).Findings {
		if !slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.Code == f.Code }) {
			t.Errorf("the code %s is not documented", f.Code)
		}
	}
}
