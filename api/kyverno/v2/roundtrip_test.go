package v2_test

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	kyvernov2beta1 "ephor.invalid/ephor/api/kyverno/v2beta1"
)

const manifest = `
metadata: {name: legacy, namespace: team-a}
spec:
  background: false
  match:
    any:
    - resources: {kinds: [Pod], names: ["old-*"], operations: [CREATE]}
      subjects: [{kind: User, name: "dev-*"}]
  conditions:
    any:
    - {key: "{{ request.object.metadata.labels.app || '' }}", operator: AnyIn, value: [a, 1]}
  exceptions:
  - {policyName: ns/hosts, ruleNames: [hosts, "autogen-*"]}
  podSecurity:
  - {controlName: Capabilities, images: ["nginx*"], restrictedField: "spec.containers[*].securityContext.capabilities.add", values: [NET_ADMIN]}
`

// Both served versions take the same object, keep every field of it, and are known to a scheme.
func TestVersions(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kyvernov2.AddToScheme, kyvernov2beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var want map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &want); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"kyverno.io/v2", "kyverno.io/v2beta1"} {
		gv := kyvernov2.GroupVersion
		if group == kyvernov2beta1.GroupVersion.String() {
			gv = kyvernov2beta1.GroupVersion
		}
		object, err := scheme.New(gv.WithKind("PolicyException"))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict([]byte(manifest), object); err != nil {
			t.Fatalf("%s: %v", group, err)
		}
		b, err := yaml.Marshal(object.DeepCopyObject())
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := yaml.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if delete(child(got, "metadata"), "creationTimestamp"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v\nwant %v", group, got, want)
		}
	}
}

func child(m map[string]any, key string) map[string]any {
	o, _ := m[key].(map[string]any)
	return o
}
