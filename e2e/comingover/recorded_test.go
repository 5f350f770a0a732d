package comingover

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/devcluster"
)

// recordings contains the objects, definitions, webhook configurations, Leases and reports of a running Kyverno. They come from the
// reference data; without these it is nil, and the tests use their own objects only.
type recordings struct {
	dir        string
	crds       map[string]any // specs of the definitions by their names
	validating []*registrationv1.ValidatingWebhookConfiguration
	mutating   []*registrationv1.MutatingWebhookConfiguration
}

// readRecordings reads the recordings from the folder that EPHOR_REFERENCE names.
func readRecordings(t *testing.T) *recordings {
	t.Helper()
	if os.Getenv("EPHOR_CONFORMANCE") == "none" {
		t.Log("NOT RUN: the recorded population (EPHOR_CONFORMANCE=none)")
		return nil
	}
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("EPHOR_REFERENCE")
	if dir == "" {
		dir = filepath.Join("..", "shared", "reference")
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	r := &recordings{dir: filepath.Join(dir, "recordings"), crds: map[string]any{}}
	files, err := filepath.Glob(filepath.Join(dir, "crds", "*.yaml"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d definitions in %s: set EPHOR_REFERENCE to the folder that holds crds/ and recordings/, or EPHOR_CONFORMANCE=none to run without the data (%v)", len(files), dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range parse(t, string(text)) {
			name, _ := o["name"].(string)
			if name == "" || o["spec"] == nil {
				t.Fatalf("%s holds no definition", file)
			}
			r.crds[name] = o["spec"]
		}
	}
	for _, o := range r.read(t, "validating-webhook-configurations.yaml") {
		c := convert[registrationv1.ValidatingWebhookConfiguration](t, o)
		r.validating = append(r.validating, c)
	}
	for _, o := range r.read(t, "mutating-webhook-configurations.yaml") {
		c := convert[registrationv1.MutatingWebhookConfiguration](t, o)
		r.mutating = append(r.mutating, c)
	}
	if len(r.validating) < 7 || len(r.mutating) < 3 {
		t.Fatalf("%d and %d recorded webhook configurations", len(r.validating), len(r.mutating))
	}
	return r
}

// read returns the objects of a recording, without fields that only the recorded API server could set.
func (r *recordings) read(t *testing.T, file string) []object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	// The recordings contain a placeholder for the certificate.
	objects := parse(t, strings.ReplaceAll(string(text), "<base64 CA>", ""))
	for _, o := range objects {
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "generateName"} {
			delete(o.metadata(), field)
		}
	}
	return objects
}

func convert[T any](t *testing.T, o object) *T {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := yaml.UnmarshalStrict(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// definitions sets the recorded schemas, versions and columns in the definitions of a manifest.
func (r *recordings) definitions(t *testing.T, objects []object) {
	t.Helper()
	found := 0
	for _, o := range objects {
		name, _ := o.metadata()["name"].(string)
		if spec, ok := r.crds[name]; ok && o["kind"] == "CustomResourceDefinition" {
			o["spec"] = spec
			found++
		}
	}
	if found != len(r.crds) {
		t.Fatalf("%d of the %d recorded definitions are in the manifest", found, len(r.crds))
	}
}

// storedVersions adds versions that only older releases of Kyverno stored to the status of definitions.
func (r *recordings) storedVersions(in *installation) {
	for name, older := range map[string]string{"updaterequests.kyverno.io": "v1beta1", "clustercleanuppolicies.kyverno.io": "v2beta1", "validatingpolicies.policies.kyverno.io": "v1alpha1"} {
		now := in.kubectl("", "get", "crd", name, "-o", "jsonpath={.status.storedVersions[0]}")
		in.kubectl("", "patch", "crd", name, "--subresource=status", "--type=merge", "--field-manager=kyverno", "-p", fmt.Sprintf(`{"status":{"storedVersions":[%q,%q]}}`, older, now))
	}
}

// populate creates the recorded objects. The resources of reports have new UIDs here, which replace the recorded ones in the names, owners,
// scopes and labels of reports.
func (r *recordings) populate(in *installation) {
	in.t.Helper()
	var all []object
	for _, file := range []string{
		"policies-stored.yaml", "cleanup-policy.yaml", "generated-configmap.yaml", "policyreports-rec.yaml", "policyreport-pod.yaml", "clusterpolicyreports.yaml",
		"ephemeralreports.yaml", "leases.yaml",
	} {
		all = append(all, r.read(in.t, file)...)
	}
	stored := map[string]bool{}
	for _, o := range all {
		stored[fmt.Sprint(o["kind"], " ", o.metadata()["name"])] = true
	}
	for _, o := range r.read(in.t, "policies.yaml") { // policies that were not recorded in their stored form
		if !stored[fmt.Sprint(o["kind"], " ", o.metadata()["name"])] && o["kind"] != "Namespace" {
			all = append(all, o)
		}
	}
	var pairs []string
	for _, o := range all {
		if ns, _ := o.metadata()["namespace"].(string); ns != "" {
			in.namespace(ns)
		}
		if scope, ok := o["scope"].(map[string]any); ok {
			pairs = append(pairs, fmt.Sprint(scope["uid"]), in.subject(scope))
		}
	}
	uids := strings.NewReplacer(pairs...)
	if err := in.Wait(in.t.Context(), "the recorded objects", func() error { // a new kind is served after a moment
		_, err := in.Kubectl(in.t.Context(), []byte(uids.Replace(print(in.t, all))), "apply", "--server-side", "--field-manager=kyverno", "--force-conflicts", "-f", "-")
		return err
	}); err != nil {
		in.t.Fatal(err)
	}
	withStatus := slices.DeleteFunc(all, func(o object) bool { return o["status"] == nil })
	if len(withStatus) < 4 {
		in.t.Fatalf("%d recorded objects with a status", len(withStatus))
	}
	in.kubectl(deleter, "apply", "-f", "-")
	in.kubectl(uids.Replace(print(in.t, withStatus)), "apply", "--server-side", "--subresource=status", "--field-manager=kyverno", "--force-conflicts", "-f", "-")
}

func (in *installation) namespace(name string) {
	in.t.Helper()
	if _, err := in.Kubectl(in.t.Context(), nil, "create", "namespace", name); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
		in.t.Fatal(err)
	}
}

// deleter grants the cleanup controller the right that the recorded cleanup policy needs.
const deleter = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: deletes-pods, labels: {rbac.kyverno.io/aggregate-to-cleanup-controller: "true"}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list, delete]}]
`

// subject creates the resource of a report, unless it exists, and returns its UID.
func (in *installation) subject(scope map[string]any) (uid string) {
	in.t.Helper()
	kind, name := fmt.Sprint(scope["kind"]), fmt.Sprint(scope["name"])
	namespace, _ := scope["namespace"].(string)
	if namespace != "" {
		in.namespace(namespace)
	}
	manifest := fmt.Sprintf(`{"apiVersion": "v1", "kind": %q, "metadata": {"name": %q, "namespace": %q}`, kind, name, namespace)
	switch kind {
	case "Pod":
		manifest += `, "spec": {"containers": [{"name": "c", "image": "nginx:1.27"}]}`
	case "ConfigMap", "Namespace":
	default:
		in.t.Fatalf("a recorded report is about a %s", kind)
	}
	if err := in.Wait(in.t.Context(), kind+" "+name, func() error { // the service account of a new namespace exists after a moment
		if _, err := in.Kubectl(in.t.Context(), []byte(manifest+"}"), "create", "-f", "-"); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
			return err
		}
		return nil
	}); err != nil {
		in.t.Fatal(err)
	}
	args := []string{"get", strings.ToLower(kind), name, "-o", "jsonpath={.metadata.uid}"}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	return in.kubectl("", args...)
}

// configurations returns the recorded webhook configurations, with the port of the local Services and the CA of each.
func (r *recordings) configurations(port int32, authorities map[string][]byte) (validating []*registrationv1.ValidatingWebhookConfiguration, mutating []*registrationv1.MutatingWebhookConfiguration) {
	if r == nil {
		return nil, nil
	}
	here := func(c *registrationv1.WebhookClientConfig) {
		c.Service.Port, c.CABundle = &port, authorities[c.Service.Name]
	}
	for _, c := range r.validating {
		c = c.DeepCopy()
		for i := range c.Webhooks {
			here(&c.Webhooks[i].ClientConfig)
		}
		validating = append(validating, c)
	}
	for _, c := range r.mutating {
		c = c.DeepCopy()
		for i := range c.Webhooks {
			here(&c.Webhooks[i].ClientConfig)
		}
		mutating = append(mutating, c)
	}
	return validating, mutating
}

// write stores webhook configurations like Kyverno's controller: without an owner, and replacing existing ones.
func write(ctx context.Context, client kubernetes.Interface, validating []*registrationv1.ValidatingWebhookConfiguration, mutating []*registrationv1.MutatingWebhookConfiguration) {
	v, m := client.AdmissionregistrationV1().ValidatingWebhookConfigurations(), client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	for _, want := range validating {
		have, err := v.Get(ctx, want.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, _ = v.Create(ctx, want, metav1.CreateOptions{FieldManager: "kyverno"})
		case err == nil:
			have.OwnerReferences, have.Labels, have.Annotations, have.Webhooks = nil, want.Labels, want.Annotations, want.Webhooks
			_, _ = v.Update(ctx, have, metav1.UpdateOptions{FieldManager: "kyverno"})
		}
	}
	for _, want := range mutating {
		have, err := m.Get(ctx, want.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, _ = m.Create(ctx, want, metav1.CreateOptions{FieldManager: "kyverno"})
		case err == nil:
			have.OwnerReferences, have.Labels, have.Annotations, have.Webhooks = nil, want.Labels, want.Annotations, want.Webhooks
			_, _ = m.Update(ctx, have, metav1.UpdateOptions{FieldManager: "kyverno"})
		}
	}
}

// policyReport contains the fields of a report that the test reads.
type policyReport struct {
	Kind     string
	Metadata struct{ Name, Namespace, UID string }
	Scope    struct{ Kind, Name, UID string }
	Results  []struct{ Policy, Rule, Source, Result, Binding string }
}

// reports returns all policy reports.
func (in *installation) reports() []policyReport {
	in.t.Helper()
	var all struct{ Items []policyReport }
	text := in.kubectl("", "get", "policyreports.wgpolicyk8s.io,clusterpolicyreports.wgpolicyk8s.io", "-A", "-o", "json")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		in.t.Fatal(err)
	}
	return all.Items
}

// once checks that no resource has two reports, and no report has two results of one rule.
func (in *installation) once(what string) {
	in.t.Helper()
	reports := map[string]string{}
	all := in.reports()
	for _, r := range all {
		name := r.Kind + " " + r.Metadata.Namespace + "/" + r.Metadata.Name
		if other := reports[r.Scope.UID]; other != "" {
			in.t.Errorf("%s: %s and %s are about the same %s %s", what, other, name, r.Scope.Kind, r.Scope.Name)
		}
		reports[r.Scope.UID] = name
		results := map[string]bool{}
		for _, result := range r.Results {
			rule := fmt.Sprint(result.Source, " ", result.Policy, "/", result.Rule, " ", result.Binding)
			if results[rule] {
				in.t.Errorf("%s: %s has two results of %s", what, name, rule)
			}
			results[rule] = true
		}
	}
	made := ""
	if in.recorded != nil {
		made = in.kubectl("", "get", "configmaps", "-A", "-l", "generate.kyverno.io/policy-name=rec-generate", "-o", "jsonpath={.items[*].metadata.name}")
		if made != "made" {
			in.t.Errorf("%s: the recorded policy has generated %q", what, made)
		}
	}
	in.t.Logf("%s: %d reports, generated: %q", what, len(all), made)
}
