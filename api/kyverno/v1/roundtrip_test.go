package v1_test

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/api/kyverno/v2beta1"
)

// manifest uses the parts whose Go form is more than a field: inlined structs, nested loops, free-form values, structs
// left out when empty.
const manifest = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: everything
spec:
  admission: false
  validationFailureAction: enforce
  rules:
  - name: loops
    match:
      any:
      - resources:
          kinds: [Pod]
          operations: [CREATE]
        subjects:
        - kind: User
          name: "dev-*"
    exclude:
      clusterRoles: [cluster-admin]
    context:
    - name: big
      variable:
        value: {big: 9007199254740993, f: 1.5, list: [null, true]}
    - name: call
      apiCall:
        method: POST
        service: {url: "https://example.com"}
        data:
        - key: a
          value: [1, "two"]
    preconditions:
    - {key: "{{ request.operation }}", operator: In, value: [CREATE]}
    validate:
      failureAction: Enforce
      message: refused
      foreach:
      - list: request.object.spec.containers
        preconditions:
          all:
          - {key: "{{ element.name }}", operator: NotEquals, value: sidecar}
        foreach:
        - list: element.ports
          foreach:
          - list: element.names
            deny:
              conditions:
                any:
                - {key: "{{ element }}", operator: Equals, value: 7}
  - name: signed
    match:
      resources:
        kinds: [Pod]
    verifyImages:
    - imageReferences: ["*"]
      mutateDigest: false
      attestors:
      - count: 1
        entries:
        - attestor:
            entries:
            - keys: {publicKeys: PEM}
  - name: made
    match: {all: [{resources: {kinds: [Namespace]}}]}
    generate:
      apiVersion: v1
      kind: ConfigMap
      name: c
      namespace: "{{ request.object.metadata.name }}"
      synchronize: true
      data: {data: {a: b}}
`

func TestRoundTrip(t *testing.T) {
	var policy kyvernov1.ClusterPolicy
	if err := yaml.UnmarshalStrict([]byte(manifest), &policy); err != nil {
		t.Fatal(err)
	}
	inner := policy.Spec.Rules[0].Validation.ForEachValidation[0].ForEachValidation[0].ForEachValidation[0]
	if inner.List != "element.names" || inner.Deny == nil {
		t.Errorf("the innermost foreach was not read: %+v", inner)
	}
	if got := string(policy.Spec.Rules[0].Context[0].Variable.Value.Raw); got != `{"big":9007199254740993,"f":1.5,"list":[null,true]}` {
		t.Errorf("a free-form value changed: %s", got)
	}
	if set := policy.Spec.Rules[1].VerifyImages[0].Attestors[0].Entries[0].Attestor; set == nil || set.Entries[0].Keys == nil {
		t.Errorf("the nested attestors were not read: %+v", set)
	}

	encoded, err := yaml.Marshal(policy.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &want); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	// The API server ignores what is written here, so the zero status does no harm.
	delete(got, "status")
	delete(got["metadata"].(map[string]any), "creationTimestamp")
	withoutEmptyResources(got) // written, as Kyverno does in status.autogen
	if !reflect.DeepEqual(got, want) {
		t.Errorf("reading and writing changed the policy:\n%s", encoded)
	}
}

// withoutEmptyResources removes what a filter without resources is written with.
func withoutEmptyResources(v any) {
	switch v := v.(type) {
	case map[string]any:
		if r, ok := v["resources"].(map[string]any); ok && len(r) == 0 {
			delete(v, "resources")
		}
		for _, x := range v {
			withoutEmptyResources(x)
		}
	case []any:
		for _, x := range v {
			withoutEmptyResources(x)
		}
	}
}

// TestUnknownField: a misspelt field deep inside is an error for strict readers, nested loops included.
func TestUnknownField(t *testing.T) {
	const misspelt = `
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      foreach:
      - list: a
        foreach:
        - lst: b
`
	var policy kyvernov1.Policy
	if err := yaml.UnmarshalStrict([]byte(misspelt), &policy); err == nil {
		t.Error("the unknown field lst was accepted")
	}
}

// TestScheme registers both versions in one scheme, as clients do.
func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kyvernov1.AddToScheme, v2beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []schema.GroupVersion{kyvernov1.GroupVersion, v2beta1.GroupVersion} {
		for _, kind := range []string{"ClusterPolicy", "ClusterPolicyList", "Policy", "PolicyList"} {
			if !scheme.Recognizes(version.WithKind(kind)) {
				t.Errorf("%s %s is not registered", version, kind)
			}
		}
	}
}

// TestFailureAction: the older lower-case spelling means the same.
func TestFailureAction(t *testing.T) {
	for action, want := range map[kyvernov1.ValidationFailureAction]bool{"enforce": true, "Enforce": true, "audit": false, "Audit": false, "": false} {
		if action.IsEnforce() != want {
			t.Errorf("%q: IsEnforce is %v", action, !want)
		}
	}
}
