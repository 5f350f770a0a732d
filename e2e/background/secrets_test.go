package background

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
)

// secretPolicies change the ConfigMap web, or make another one, when the content of a Secret changes; gone does when a certain one is deleted.
const secretPolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: restart}
spec:
  background: false
  rules:
  - name: changed
    match: {any: [{resources: {kinds: [Secret], namespaces: [sealed], operations: [UPDATE]}}]}
    context: [{name: before, variable: {jmesPath: request.oldObject.data}}]
    preconditions: {all: [{key: "{{ request.object.data }}", operator: NotEquals, value: "{{ before }}"}]}
    mutate:
      targets: [{apiVersion: v1, kind: ConfigMap, name: web, namespace: sealed}]
      patchStrategicMerge: {data: {classic: "{{ request.object.data.a }}"}}
  - name: made
    match: {any: [{resources: {kinds: [Secret], namespaces: [sealed], operations: [UPDATE]}}]}
    preconditions: {all: [{key: "{{ request.object.data }}", operator: NotEquals, value: "{{ request.oldObject.data }}"}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: sealed-made, data: {data: {a: "{{ request.object.data.a }}"}}}
  - name: gone
    match: {any: [{resources: {kinds: [Secret], namespaces: [sealed], operations: [DELETE]}}]}
    preconditions: {all: [{key: "{{ request.oldObject.data.a }}", operator: Equals, value: Mw==}]}
    mutate:
      targets: [{apiVersion: v1, kind: ConfigMap, name: web, namespace: sealed}]
      patchStrategicMerge: {data: {gone: "{{ request.oldObject.metadata.name }}"}}
`

const secretPolicy = `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: restart-cel}
spec:
  evaluation: {background: {enabled: false}, mutateExisting: {enabled: true}}
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: sealed}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [secrets]}]
  matchConditions: [{name: changed, expression: object.data != oldObject.data}]
  targetMatchConstraints:
    expression: "resource.get('v1', 'configmaps', 'sealed', 'web')"
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data/cel', value: string(trigger.object.data.a)}]"}
`

// Work for changed and deleted Secrets is done by the conditions that held at admission, since their old content is not stored.
func TestSecretChanges(t *testing.T) {
	start(t)
	namespaces(t, "sealed", "sealed-made")
	create(t, configMap("sealed", "web", nil, map[string]string{"k": "v"}))
	apply(t, secretPolicies)
	celApply(t, "mutatingpolicies", secretPolicy)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "sealed", Name: "tls"}, Data: map[string][]byte{"a": []byte("1")}}
	secrets := cluster.Client.CoreV1().Secrets("sealed")
	if _, err := secrets.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	write := func(f func(*corev1.Secret)) {
		t.Helper()
		suite.Eventually(t, func() error {
			live, err := secrets.Get(t.Context(), s.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			f(live)
			_, err = secrets.Update(t.Context(), live, metav1.UpdateOptions{})
			return err
		})
	}
	write(func(s *corev1.Secret) { s.Labels = map[string]string{"x": "y"} })
	drained(t)
	for _, key := range []string{"classic", "cel"} {
		if got := state(t, "sealed", "web", key); got != gone && got != "" {
			t.Errorf("an update without a change of the content: %s is %q", key, got)
		}
	}
	if got := state(t, "sealed-made", "made", "a"); got != gone {
		t.Errorf("an update without a change of the content made %q", got)
	}
	write(func(s *corev1.Secret) { s.Data["a"] = []byte("3") })
	has(t, "sealed", "web", "classic", "Mw==")
	has(t, "sealed", "web", "cel", "Mw==")
	has(t, "sealed-made", "made", "a", "Mw==")
	drained(t)
	if err := secrets.Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	has(t, "sealed", "web", "gone", "tls")
	drained(t)
}
