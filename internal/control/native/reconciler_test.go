package native

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/vapgen"
)

// Rounds that wait for the Program of a policy, which may never come, have growing pauses: each of them lists the generated objects.
func TestRoundsThatWait(t *testing.T) {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p, uid: u, generation: 1}, spec: {rules: [
	  {name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {cel: {generate: true, expressions: [{expression: "true"}]}}}]}}`), &u.Object); err != nil {
		t.Fatal(err)
	}
	policies := intake.NewPolicies(intake.PolicyOptions{Kinds: intake.Requests(), Catalog: catalog.New(), Log: slog.New(slog.DiscardHandler)})
	policies.Add(u)
	lists := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	})
	n := &Reconciler{
		Policies: policies, Catalog: catalog.New(), Log: slog.New(slog.DiscardHandler),
		Resources: discovery.List{
			{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true},
			{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies", Kind: "ValidatingAdmissionPolicy"},
		},
		Apply: &vapgen.Reconciler{Client: c, Reader: c, Events: event.Discard, Log: slog.New(slog.DiscardHandler)},
	}
	const minutes = 10
	for at := time.Duration(0); at < minutes*time.Minute; {
		again, err := n.Once(t.Context())
		if err != nil || again == 0 {
			t.Fatal(again, err)
		}
		at += again
	}
	if lists == 0 || lists > 60*minutes {
		t.Errorf("%d lists in %d minutes", lists, minutes)
	}
}

// A status that another writer kept from being written is written in a further round.
func TestStatusAfterAConflict(t *testing.T) {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p, uid: u, generation: 1}, spec: {rules: [
	  {name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {cel: {generate: true, expressions: [{expression: "true"}]}}}]}}`), &u.Object); err != nil {
		t.Fatal(err)
	}
	all := catalog.New()
	policies := intake.NewPolicies(intake.PolicyOptions{Kinds: intake.Requests(), Catalog: all, Families: compile.Product, Log: slog.New(slog.DiscardHandler)})
	policies.Add(u)
	writes := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			writes++
			return apierrors.NewConflict(schema.GroupResource{}, "p", nil)
		},
	})
	n := &Reconciler{
		Policies: policies, Catalog: all, Log: slog.New(slog.DiscardHandler), Status: &status.Writer{Client: c},
		Resources: discovery.List{{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}},
		Apply:     &vapgen.Reconciler{Client: c, Reader: c, Events: event.Discard, Log: slog.New(slog.DiscardHandler)},
	}
	if again, err := n.Once(t.Context()); err != nil || again == 0 || again >= retryNative || writes == 0 {
		t.Errorf("again in %s, %d writes, %v", again, writes, err)
	}
}

// served are the kinds that an API server with MutatingAdmissionPolicies serves.
var served = discovery.List{
	{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies", Kind: "MutatingAdmissionPolicy"},
}

// A MutatingAdmissionPolicy stays until Ephor's webhooks have its policy again, also when the policy still asks for it, but cannot be translated
// any more.
func TestHandedBack(t *testing.T) {
	const text = `{apiVersion: policies.kyverno.io/v1beta1, kind: MutatingPolicy, metadata: {name: p, uid: u, generation: %d}, spec: {
	  autogen: {mutatingAdmissionPolicy: {enabled: true}}, evaluation: {useServerSideApply: true},
	  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
	  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{}"}}]}, status: {generated: %v, conditionStatus: {conditions: [{type: WebhookConfigured}]}}}`
	read := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	all := catalog.New()
	policies := intake.NewPolicies(intake.PolicyOptions{Kinds: intake.Requests(), Catalog: all, Families: compile.Product, Log: slog.New(slog.DiscardHandler)})
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(read(`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {
	  name: mpol-p, labels: {app.kubernetes.io/managed-by: kyverno}, ownerReferences: [{apiVersion: policies.kyverno.io/v1beta1, kind: MutatingPolicy, name: p, uid: u}]}}`)).Build(), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return nil
		},
	})
	configured := false
	n := &Reconciler{
		Policies: policies, Catalog: all, Log: slog.New(slog.DiscardHandler), Status: &status.Writer{Client: c},
		Configured: func(*policy.Program) bool { return configured },
		Resources:  served,
		Apply:      &vapgen.Reconciler{Client: c, Reader: c, Events: event.Discard, Log: slog.New(slog.DiscardHandler)},
	}
	for _, step := range []struct {
		generated, configured, stays bool
	}{{true, false, true}, {false, false, true}, {false, true, false}} {
		configured = step.configured
		policies.Add(read(fmt.Sprintf(text, 2, step.generated)))
		again, err := n.Once(t.Context())
		if err != nil || step.stays && again == 0 {
			t.Fatal(again, err)
		}
		err = c.Get(t.Context(), client.ObjectKey{Name: "mpol-p"}, read("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy}"))
		if client.IgnoreNotFound(err) != nil || (err == nil) != step.stays {
			t.Errorf("generated in the status: %v, in the webhooks: %v: found %v, want %v", step.generated, step.configured, err == nil, step.stays)
		}
	}
}

// A MutatingPolicy stays handed over while its object cannot be updated for a moment: the object is still there, and changes that Ephor makes, too,
// would be made twice. An update that the API server rejects hands it back.
func TestStaysHandedOver(t *testing.T) {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`{apiVersion: policies.kyverno.io/v1beta1, kind: MutatingPolicy, metadata: {name: p, uid: u, generation: 2}, spec: {
	  autogen: {mutatingAdmissionPolicy: {enabled: true}},
	  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
	  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{}"}}]}, status: {generated: true, conditionStatus: {conditions: [{type: WebhookConfigured}]}}}`), &u.Object); err != nil {
		t.Fatal(err)
	}
	old := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {
	  name: mpol-p, labels: {app.kubernetes.io/managed-by: kyverno}, ownerReferences: [{apiVersion: policies.kyverno.io/v1beta1, kind: MutatingPolicy, name: p, uid: u}]}}`), &old.Object); err != nil {
		t.Fatal(err)
	}
	all := catalog.New()
	policies := intake.NewPolicies(intake.PolicyOptions{Kinds: intake.Requests(), Catalog: all, Families: compile.Product, Log: slog.New(slog.DiscardHandler)})
	policies.Add(u)
	for _, c := range []struct {
		err      error
		handBack bool
	}{
		{apierrors.NewServiceUnavailable("no leader"), false}, {context.DeadlineExceeded, false},
		{apierrors.NewInvalid(schema.GroupKind{}, "mpol-p", nil), true}, {apierrors.NewForbidden(schema.GroupResource{}, "mpol-p", nil), true},
	} {
		writes := 0
		client := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(old.DeepCopy()).Build(), interceptor.Funcs{
			Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return c.err },
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				writes++
				return nil
			},
		})
		n := &Reconciler{
			Policies: policies, Catalog: all, Log: slog.New(slog.DiscardHandler), Status: &status.Writer{Client: client},
			Configured: func(*policy.Program) bool { return true },
			Resources:  served,
			Apply:      &vapgen.Reconciler{Client: client, Reader: client, Events: event.Discard, Log: slog.New(slog.DiscardHandler)},
		}
		again, err := n.Once(t.Context())
		if err != nil || again == 0 || again > retryNative || (writes > 0) != c.handBack {
			t.Errorf("%v: again in %s, %d writes of the status, %v", c.err, again, writes, err)
		}
	}
}
