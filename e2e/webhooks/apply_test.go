package webhooks

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	clientdiscovery "k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/webhookconf"
)

// TestReconcileTwice: the API server stores the computed configurations, whatever the settings are, and adds nothing that would make the
// second round write again. The configurations of a thousand policies with their own webhooks are stored, and removed with the policies.
func TestReconcileTwice(t *testing.T) {
	found, err := clientdiscovery.NewDiscoveryClientForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	role := owner()
	if err := client.IgnoreAlreadyExists(api.Create(t.Context(), role)); err != nil {
		t.Fatal(err)
	}
	reference, err := webhookconf.FindOwner(t.Context(), api, "")
	if err != nil || reference == nil {
		t.Fatal(reference, err)
	}
	make := func(kinds ...string) (p []*policy.Program) {
		for i, kind := range kinds {
			p = append(p, &policy.Program{Kind: "ClusterPolicy", Name: fmt.Sprint("p", i), Settings: policy.Settings{Admission: true}, Rules: []*policy.Rule{{
				Stage: policy.StageValidate | policy.StageMutate, Matching: policy.Matching{
					Targets: []policy.Target{{Group: "*", Version: "*", Kind: kind}},
					Header:  &policy.Header{Filters: []policy.Literals{{Names: []string{"a"}}}},
				},
			}}})
		}
		return p
	}
	fine := make("Pod")[0]
	var thousand []*policy.Program
	for i := range 1000 {
		p := *fine
		p.Name = fmt.Sprintf("a-policy-whose-name-is-as-long-as-they-often-are-%d", i)
		p.Settings.MatchConditions = []policy.MatchCondition{{Name: "team", Expression: fmt.Sprintf(`request.namespace == "team-%d"`, i)}}
		thousand = append(thousand, &p)
	}
	for _, c := range []struct {
		name     string
		programs []*policy.Program
		data     map[string]string
		options  func(*webhookconf.Options)
	}{
		{name: "nothing"},
		{name: "kinds with several versions, subresources, wildcards", programs: make("Pod", "HorizontalPodAutoscaler", "*", "Event", "ClusterRole")},
		{name: "everything from the ConfigMap", programs: make("Secret"), data: map[string]string{
			"webhooks":           `{"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"Exists","values":[]}],"matchLabels":null},"objectSelector":{"matchLabels":{}}}`,
			"webhookLabels":      `{"a":"b"}`,
			"webhookAnnotations": `{}`,
			"matchConditions":    `[{"name":"a","expression":"true"},{"name":"example.com/b","expression":"request.name != 'x'"}]`,
		}},
		{name: "flags", programs: make("Pod", "*"), options: func(o *webhookconf.Options) {
			o.Derive, o.Protects, o.ExcludeBootstrap, o.ServerIP = true, true, true, "192.0.2.1:9443"
		}},
		{name: "derived", programs: make("Pod"), options: func(o *webhookconf.Options) { o.Derive, o.AdmissionReports = true, true }},
		{name: "static", options: func(o *webhookconf.Options) { o.Static = true }},
		{name: "a thousand policies with match conditions", programs: thousand},
		{name: "nothing again"},
	} {
		s, diags := settings.Parse(c.data)
		if len(diags) > 0 {
			t.Fatal(diags.Error())
		}
		in := webhookconf.Input{
			Programs: c.programs, Settings: s, CABundle: ca(t), Resources: discovery.New(found, time.Now), Owner: reference,
			Options: webhookconf.Options{Namespace: namespace, Service: "kyverno-svc", ServicePort: 443, TimeoutSeconds: 10},
		}
		if c.options != nil {
			c.options(&in.Options)
		}
		for _, p := range in.Programs {
			p.Webhooks = classic.Webhooks(p)
		}
		want, _, _, err := webhookconf.Desired(in)
		if err != nil {
			t.Fatal(err)
		}
		// No replica answers, but no request may be denied.
		for _, v := range want.Validating {
			for i := range v.Webhooks {
				v.Webhooks[i].FailurePolicy = ptr(admissionv1.Ignore)
			}
		}
		for _, m := range want.Mutating {
			for i := range m.Webhooks {
				m.Webhooks[i].FailurePolicy = ptr(admissionv1.Ignore)
			}
		}
		r := &webhookconf.Reconciler{Client: api, Reader: api, Live: api, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
		if _, err := r.Apply(t.Context(), want); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if written, err := r.Apply(t.Context(), want); err != nil || written > 0 {
			t.Errorf("%s: the second round wrote %d, %v", c.name, written, err)
		}
		if names := stored(t); len(names) != len(want.Validating)+len(want.Mutating) {
			t.Errorf("%s: %v are stored", c.name, names)
		}
	}
	if err := webhookconf.Remove(t.Context(), api); err != nil || len(stored(t)) > 0 {
		t.Errorf("%v are left, %v", stored(t), err)
	}
}

func ptr[T any](v T) *T { return &v }

// ca returns a bundle that the API server accepts: that of the cluster itself.
func ca(t *testing.T) []byte {
	t.Helper()
	if len(cluster.Config.CAData) > 0 {
		return cluster.Config.CAData
	}
	b, err := os.ReadFile(cluster.Config.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
