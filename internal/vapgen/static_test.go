package vapgen_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission/plugin/policy/manifest/loader"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/vapgen"
)

// unfit are the policies of the examples that an API server cannot load from files, with a part of the reason.
var unfit = map[string]string{}

// The loader of the API server accepts the files of the examples, with one policy and binding for each of Pods, their controllers and CronJobs.
func TestStaticFilesAreLoaded(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, pattern := range []string{"../../examples/pod-security-cel/*.yaml", "../../examples/library/*/policy-cel.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	want := 0
	for _, file := range files {
		object := read(t, file)
		out := vapgen.StaticOf(object, nil)
		name := object["metadata"].(map[string]any)["name"].(string)
		if reason, is := unfit[name]; is != (out.Reason != "") || !strings.Contains(out.Reason, reason) {
			t.Errorf("%s: %q", file, out.Reason)
		}
		for i, o := range out.Objects {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.yaml", name, i)), text, 0o600); err != nil {
				t.Fatal(err)
			}
			want++
		}
	}
	policies, bindings, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(policies) + len(bindings); n != want || len(policies) != len(bindings) || want < 2*len(files) {
		t.Errorf("%d policies and %d bindings of %d files with %d objects", len(policies), len(bindings), len(files), want)
	}
}

// What a file may not contain is a reason.
func TestStaticReasons(t *testing.T) {
	binding := func(more string) map[string]any {
		return parse(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p, validationActions: [Deny]`+more+`}}`)
	}
	const policy = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p, labels: {a: b}}, spec: {
	  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}, validations: [{expression: "true"}]%s}}`
	const own = `{apiVersion: policies.kyverno.io/v1, kind: %s, metadata: {name: p%s}, spec: {%s
	  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}, validations: [{expression: "%s"}]}}`
	for _, c := range []struct {
		object   string
		bindings []map[string]any
		want     string // part of the reason; empty for none
	}{
		{fmt.Sprintf(policy, ""), []map[string]any{binding("")}, ""},
		{fmt.Sprintf(policy, ""), nil, "no binding"},
		{fmt.Sprintf(policy, ""), []map[string]any{binding(", paramRef: {name: x, parameterNotFoundAction: Deny}")}, "spec.paramRef"},
		{fmt.Sprintf(policy, ", paramKind: {apiVersion: v1, kind: ConfigMap}"), []map[string]any{binding("")}, "spec.paramKind"},
		{fmt.Sprintf(own, "ValidatingPolicy", "", "", "true"), nil, ""},
		{fmt.Sprintf(own, "ValidatingPolicy", "", "evaluation: {admission: {enabled: false}},", "true"), nil, "not evaluated at admission"},
		{fmt.Sprintf(own, "ValidatingPolicy", "", "", "resource.Get('v1', 'configmaps', 'a', 'b') == null"), nil, "resource"},
		{fmt.Sprintf(own, "NamespacedValidatingPolicy", ", namespace: shop", "", "true"), nil, "of a namespace"},
		{`{apiVersion: policies.kyverno.io/v1, kind: DeletingPolicy, metadata: {name: p}, spec: {schedule: "* * * * *"}}`, nil, "no policies of this kind"},
		{`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{name: a.example.com, clientConfig: {url: "https://127.0.0.1:9443/a"}}]}`, nil, ""},
		{`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: w}, webhooks: [{name: a.example.com, clientConfig: {service: {name: s, namespace: n}}}]}`, nil, "a.example.com is called by a Service"},
	} {
		out := vapgen.StaticOf(parse(t, c.object), c.bindings)
		if (out.Reason == "") != (c.want == "") || !strings.Contains(out.Reason, c.want) {
			t.Errorf("%s: %q, want %q", c.object, out.Reason, c.want)
		}
		if (len(out.Objects) > 0) != (c.want == "") && out.Reason == "" {
			t.Errorf("%s: %d objects", c.object, len(out.Objects))
		}
		for _, o := range out.Objects {
			if name := o["metadata"].(map[string]any)["name"].(string); !strings.HasSuffix(name, vapgen.StaticSuffix) || len(o["metadata"].(map[string]any)) != 1 {
				t.Errorf("%v", o["metadata"])
			}
		}
	}
}

// load reads a folder as the API server does.
func load(dir string) ([]*admissionregistrationv1.ValidatingAdmissionPolicy, []*admissionregistrationv1.ValidatingAdmissionPolicyBinding, error) {
	s := runtime.NewScheme()
	if err := admissionregistrationv1.AddToScheme(s); err != nil {
		return nil, nil, err
	}
	s.AddUnversionedTypes(metav1.SchemeGroupVersion, &metav1.List{}, &metav1.Status{})
	policies, bindings, _, err := loader.LoadPolicyManifests(dir, serializer.NewCodecFactory(s, serializer.EnableStrict).UniversalDeserializer(),
		accept[*admissionregistrationv1.ValidatingAdmissionPolicy], accept[*admissionregistrationv1.ValidatingAdmissionPolicyBinding],
		func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) string { return b.Spec.PolicyName })
	return policies, bindings, err
}

func accept[T any](o runtime.Object) ([]T, error) {
	if one, ok := o.(T); ok {
		return []T{one}, nil
	}
	return nil, loader.ErrUnrecognizedType
}

func read(t *testing.T, file string) map[string]any {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(content))
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}
