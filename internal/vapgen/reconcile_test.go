package vapgen

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
)

const full = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p, uid: u, labels: {reports.kyverno.io/disabled: "true"}}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Deployment, StatefulSet], names: [a, b], operations: [CREATE, UPDATE], selector: {matchLabels: {a: b}}}}]}
    exclude: {any: [{resources: {kinds: [Deployment], names: [c]}}]}
    validate:
      failureAction: Enforce
      cel:
        generate: true
        variables: [{name: n, expression: "1"}]
        expressions: [{expression: "has(object.spec)", message: needed, reason: Invalid}, {expression: "true"}]
        auditAnnotations: [{key: k, valueExpression: "'v'"}]
        paramKind: {apiVersion: v1, kind: ConfigMap}
        paramRef: {name: p, namespace: d, parameterNotFoundAction: Deny}
`

// made returns the translation of a policy.
func made(t *testing.T, text string) Output {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	u := unstructured.Unstructured{Object: object}
	out, err := Of(u.GetAPIVersion(), u.GetKind()).Translate(Input{Object: object, Resources: known})
	if err != nil || out.Policy == nil {
		t.Fatal(out.Reason, err)
	}
	return out
}

// An existing object is as wanted if it differs only by the API server's defaults; parts that the policy no longer has are
// removed.
func TestSame(t *testing.T) {
	equivalent := admissionregistrationv1.Equivalent
	have := made(t, full)
	p := have.Policy.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	c := p.Spec.MatchConstraints
	c.MatchPolicy, c.NamespaceSelector = &equivalent, &metav1.LabelSelector{}
	p.ResourceVersion, p.Generation = "7", 1
	unchanged := func(want Output) bool { return same(want.Policy, have.Policy) && same(want.Binding, have.Binding) }
	if !unchanged(made(t, full)) {
		t.Error("the same policy is another one")
	}
	for _, without := range []string{
		", StatefulSet", ", b]", ", names: [a, b]", ", UPDATE", ", selector: {matchLabels: {a: b}}", ", names: [c]", ", message: needed", ", reason: Invalid",
		`, {expression: "true"}`, ", namespace: d", `, labels: {reports.kyverno.io/disabled: "true"}`,
		"        variables: [{name: n, expression: \"1\"}]\n", "        auditAnnotations: [{key: k, valueExpression: \"'v'\"}]\n",
		"    exclude: {any: [{resources: {kinds: [Deployment], names: [c]}}]}\n",
	} {
		replacement := ""
		if without == ", b]" {
			replacement = "]"
		}
		text := strings.Replace(full, without, replacement, 1)
		if text == full {
			t.Fatalf("%q is not in the policy", without)
		}
		if unchanged(made(t, text)) {
			t.Errorf("without %q it is still the same", without)
		}
	}
}

// What was generated from an earlier state of a policy goes if the API server rejects its translation: Ephor no longer evaluates that state.
func TestRejected(t *testing.T) {
	for _, c := range []struct{ rejects, left string }{
		{"ValidatingAdmissionPolicy", ""},
		{"ValidatingAdmissionPolicyBinding", "cpol-p"}, // it has no effect without a binding
	} {
		server := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
		r := &Reconciler{Client: server, Reader: server, Events: event.Discard, Log: slog.New(slog.DiscardHandler)}
		round := func(text string) (map[policy.ID]error, bool) {
			t.Helper()
			failed, unfinished, err := r.Apply(t.Context(), Round{Native: Validating, Version: "v1", Want: map[policy.ID]Output{{Kind: "ClusterPolicy", Name: "p"}: made(t, text)}})
			if err != nil {
				t.Fatal(err)
			}
			return failed, unfinished
		}
		if failed, _ := round(full); len(failed) > 0 {
			t.Fatal(failed)
		}
		r.Client = interceptor.NewClient(server, interceptor.Funcs{
			Update: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if kind := o.GetObjectKind().GroupVersionKind().GroupKind(); kind.Kind == c.rejects {
					return apierrors.NewInvalid(kind, o.GetName(), nil)
				}
				return to.Update(ctx, o, opts...)
			},
		})
		changed := strings.NewReplacer("failureAction: Enforce", "failureAction: Audit", ", message: needed", "").Replace(full)
		for range 2 {
			if failed, unfinished := round(changed); len(failed) != 1 || unfinished {
				t.Errorf("%s: failed %v, unfinished %v", c.rejects, failed, unfinished)
			}
			if c.rejects == "ValidatingAdmissionPolicyBinding" {
				break // the next round may create what is not there
			}
			r.Client = interceptor.NewClient(server, interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					return apierrors.NewInvalid(schema.GroupKind{}, "cpol-p", nil)
				},
			})
		}
		var names []string
		for _, kind := range []string{"ValidatingAdmissionPolicyList", "ValidatingAdmissionPolicyBindingList"} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk("v1", kind))
			if err := server.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			for _, o := range list.Items {
				names = append(names, o.GetName())
			}
		}
		if got := strings.Join(names, " "); got != c.left {
			t.Errorf("%s is rejected: left are %q, want %q", c.rejects, got, c.left)
		}
	}
}
