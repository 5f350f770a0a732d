package ephor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/scan"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/webhookconf"
	"ephor.invalid/ephor/internal/world/fixed"
)

// bans is a family that only this test has: a LabelBan forbids ConfigMaps to have a label. It has everything that a family needs:
// kinds, a compiler, an endpoint and a status.
var bans = &family.Family{
	Name: "bans", Doc: "LabelBan of sketch.example.com", Compile: compileBan, Endpoints: banEndpoints,
	Kinds: family.Kinds{{
		Group: "sketch.example.com", Kind: "LabelBan", Resource: "labelbans", Versions: []string{"v1"}, Source: "Sketch",
		LabelPrefix: "ban.sketch.example.com/", Review: family.ReviewPolicy,
		Metrics: &family.Metrics{Name: "sketch_label_ban", Kind: "LabelBan", Per: "object", Mode: true},
	}},
	Status: &family.Status{Conditions: []string{"conditions"}, Make: func(_ map[string]any, s family.State) (map[string]any, error) {
		return map[string]any{"conditions": []any{map[string]any{"type": "InForce"}}, "inForce": s.NotReady == nil && s.Program != nil}, nil
	}},
}

var banEndpoints = []policy.Endpoint{{Kinds: []string{"LabelBan"}, Name: "ban.sketch.example.com", Path: "/ban", Stages: policy.StageValidate}}

// compileBan implements the whole language of the family.
func compileBan(in family.Source) *policy.Program {
	u := unstructured.Unstructured{Object: in.Object}
	label, _, _ := unstructured.NestedString(in.Object, "spec", "forbiddenLabel")
	target := policy.Target{Version: "v1", Resource: "configmaps"}
	p := &policy.Program{
		APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), Settings: policy.Settings{Admission: true, Background: true, Scored: true},
		Webhooks: []policy.Webhook{{Endpoint: &banEndpoints[0], Brings: policy.StageValidate, Operations: []policy.Operation{policy.Create, policy.Update}}},
	}
	if label == "" {
		p.Diags.Errorf("spec.forbiddenLabel", "a label is required")
	}
	p.Rules = []*policy.Rule{{
		Name: "label", Kind: "ban", Stage: policy.StageValidate, Path: "spec", Effect: policy.Effect{Action: policy.ActionPlan{Default: policy.Deny}}, Matching: policy.Matching{
			Targets: []policy.Target{target},
			Match:   func(_ context.Context, r *policy.Request) (bool, error) { return target.Matches(r) },
		},
		Eval: func(c *policy.Call) policy.Yield {
			object, err := c.Request.Object.Map()
			if err != nil {
				return policy.Yield{Status: policy.StatusError, Message: err.Error()}
			}
			labels := (&unstructured.Unstructured{Object: object}).GetLabels()
			if _, has := labels[label]; has {
				return policy.Yield{Status: policy.StatusFail, Message: "the label " + label + " is forbidden"}
			}
			return policy.Yield{Status: policy.StatusPass, Message: "no such label"}
		},
	}}
	return p
}

const (
	oneBan  = "{apiVersion: sketch.example.com/v1, kind: LabelBan, metadata: {name: no-x, uid: u1}, spec: {forbiddenLabel: x}}"
	badBan  = "{apiVersion: sketch.example.com/v1, kind: LabelBan, metadata: {name: no-x}, spec: {}}"
	labeled = "{apiVersion: v1, kind: ConfigMap, metadata: {name: bad, namespace: shop, uid: c1, labels: {x: a}}}"
	plain   = "{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: shop, uid: c2}}"
)

// banCluster serves only ConfigMaps.
type banCluster struct{ discovery.List }

func (banCluster) Roles(context.Context, *policy.User, string) (policy.Roles, error) {
	return policy.Roles{}, nil
}
func (banCluster) NamespaceLabels(context.Context, string) (map[string]string, error) {
	return nil, nil
}
func (banCluster) BodyOf(string) []string { return nil }
func (banCluster) KindFor(context.Context, schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return configMaps.GroupVersion().WithKind("ConfigMap"), nil
}

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	banServed  = banCluster{discovery.List{{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}}}
)

// sketch is a product with an additional family.
type sketch struct {
	families *compile.Registry
	catalog  *catalog.Catalog
	metrics  *observe.Metrics
	log      *slog.Logger
	settings *settings.Settings
}

// A family takes part in everything through its descriptor alone: no package but this test knows LabelBans.
func TestThirdFamily(t *testing.T) {
	s := &sketch{families: compile.NewRegistry(append(compile.Product.Families(), bans)...), catalog: catalog.New(), log: slog.New(slog.DiscardHandler)}
	s.metrics = observe.NewMetrics(observe.Options{Families: s.families})
	s.settings, _ = settings.Parse(nil)
	object := decoded(t, oneBan)
	follow := intake.NewPolicies(intake.PolicyOptions{Families: s.families, Kinds: bans.Kinds, Catalog: s.catalog, Log: s.log})
	for _, w := range follow.Watches() {
		w.Handler.OnAdd(object, true)
	}
	program := s.catalog.Snapshot().Get(policy.ID{Kind: "LabelBan", Name: "no-x"})
	if program == nil || program.Family != "bans" {
		t.Fatalf("the intake made %+v", program)
	}
	t.Run("admission", s.admission)
	t.Run("webhooks", s.webhooks)
	t.Run("scan", s.scan)
	t.Run("command line", s.commands)
	t.Run("status", func(t *testing.T) {
		got, err := status.Desired(s.families, object, family.State{Program: program, Now: time.Unix(0, 0)})
		if err != nil || got["inForce"] != true || !status.IsNew(s.families, object) {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// admission sends reviews through the HTTP handler: of policies, and of the objects that they select.
func (s *sketch) admission(t *testing.T) {
	store := &settings.Store{}
	store.Set(s.settings)
	srv := admission.New(admission.Options{
		Families: s.families, Timeout: 10 * time.Second, Log: s.log, Now: time.Now, Observer: observe.Server{Metrics: s.metrics},
	}, s.catalog.Snapshot, store, fixed.New(fixed.Values{}), banServed, func() error { return nil })
	srv.Open()
	for _, c := range []struct{ path, object, message string }{
		{"/policyvalidate", oneBan, ""},
		{"/policyvalidate", badBan, "a label is required"},
		{"/ban/fail", labeled, "the label x is forbidden"},
		{"/ban/fail", plain, ""},
		{"/ban/fail/finegrained/no-x", labeled, "the label x is forbidden"},
		{"/validate/fail", labeled, ""}, // the endpoint of another family
	} {
		object := decoded(t, c.object)
		res := asked(t, srv, c.path, object)
		if res.Allowed != (c.message == "") || res.Result != nil && !strings.Contains(res.Result.Message, c.message) {
			t.Errorf("%s of %s: %+v, want %q", c.path, object.GetName(), res, c.message)
		}
	}
	page := httptest.NewRecorder()
	s.metrics.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"sketch_label_ban_results_total{", `policy_validation_mode="Deny"`, `policy_name="no-x"`, `result="fail"`} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
}

func asked(t *testing.T, srv *admission.Server, path string, object *unstructured.Unstructured) *admissionv1.AdmissionResponse {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	kind, resource := metav1.GroupVersionKind(object.GroupVersionKind()), metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	if k := bans.Kinds.Of(kind.Group, kind.Kind); k != nil {
		resource = metav1.GroupVersionResource(k.GVR())
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Kind: kind, RequestKind: &kind, Resource: resource, RequestResource: &resource, Operation: admissionv1.Create,
			Namespace: object.GetNamespace(), Name: object.GetName(), Object: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	srv.ServeHTTP(w, r)
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Response == nil {
		t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
	}
	return out.Response
}

// webhooks checks the webhooks of the family, and of its policies themselves.
func (s *sketch) webhooks(t *testing.T) {
	got, ready, _, err := webhookconf.Desired(webhookconf.Input{
		Families: s.families, Programs: s.catalog.Snapshot().Programs(), Settings: s.settings, CABundle: []byte("CA"), Resources: banServed,
		Options: webhookconf.Options{Namespace: "kyverno", Service: "kyverno-svc", ServicePort: 443, TimeoutSeconds: 10},
	})
	if err != nil || len(ready) != 1 || ready["LabelBan/no-x"] != nil {
		t.Fatalf("ready %v, %v", ready, err)
	}
	found := map[string]string{}
	for _, c := range got.Validating {
		for _, w := range c.Webhooks {
			for _, r := range w.Rules {
				found[w.Name] += *w.ClientConfig.Service.Path + " " + strings.Join(r.Resources, ",") + "; "
			}
		}
	}
	if w := found["ban.sketch.example.com-fail"]; w != "/ban/fail configmaps; " {
		t.Errorf("the webhook for ConfigMaps is %q among %v", w, found)
	}
	if w := found["validate-policy.kyverno.svc"]; !strings.Contains(w, "labelbans") {
		t.Errorf("the webhook for policies is %q", w)
	}
}

// scan evaluates existing ConfigMaps, and writes their reports.
func (s *sketch) scan(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := policyreport.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientBuilder().WithScheme(scheme).Build()
	metadata := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	written := make(chan struct{}, 2)
	scanner := scan.New(scan.Options{
		Catalog: s.catalog, Resources: banServed, Metadata: metadata, Root: fixed.New(fixed.Values{}), Eval: engine.Eval,
		Objects:  configMapsOf(t, decoded(t, labeled), decoded(t, plain)),
		Sink:     reports.New(reports.Options{Client: client, Metadata: metadata, Form: reports.PolicyReports, Log: s.log, Now: time.Now}),
		Conf:     func() policy.Conf { return policy.Conf{} },
		Labels:   banServed.NamespaceLabels,
		Reported: func(*policy.Outcome) { written <- struct{}{} },
		Workers:  1, Interval: time.Hour, Log: s.log, Now: time.Now,
	})
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	ended := make(chan struct{})
	go func() { defer close(ended); controller.RunRows(ctx, scanner.Rows(), s.log, nil) }()
	scanner.Replan()
	for range 2 {
		select {
		case <-written:
		case <-ctx.Done():
			t.Fatal("no report was written")
		}
	}
	stop()
	<-ended
	var all policyreport.PolicyReportList
	if err := client.List(t.Context(), &all); err != nil || len(all.Items) != 2 {
		t.Fatalf("reports %+v, %v", all.Items, err)
	}
	for _, r := range all.Items {
		want := map[string]string{"c1": "fail the label x is forbidden", "c2": "pass no such label"}[r.Name]
		if len(r.Results) != 1 || r.Results[0].Source != "Sketch" || r.Results[0].Policy != "no-x" || string(r.Results[0].Result)+" "+r.Results[0].Message != want {
			t.Errorf("the report %s holds %+v, want %s", r.Name, r.Results, want)
		}
	}
}

// configMapsOf returns a client whose API server has these ConfigMaps.
func configMapsOf(t *testing.T, objects ...*unstructured.Unstructured) rest.Interface {
	t.Helper()
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": map[string]any{"resourceVersion": "1"}}}
	for _, o := range objects {
		list.Items = append(list.Items, *o)
	}
	text, err := list.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return &restfake.RESTClient{NegotiatedSerializer: clientscheme.Codecs.WithoutConversion(), Client: restfake.CreateHTTPClient(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text))}, nil
	})}
}

// commands apply a policy to files, with text and with a report, and test it.
func (s *sketch) commands(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ban.yaml": oneBan, "bad.yaml": badBan, "objects.yaml": labeled + "\n---\n" + plain, "kyverno-test.yaml": `
apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata: {name: sketch}
policies: [ban.yaml]
resources: [objects.yaml]
results:
- {policy: no-x, rule: label, kind: ConfigMap, resources: [bad], result: fail}
- {policy: no-x, rule: label, kind: ConfigMap, resources: [good], result: pass}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct {
		command string
		code    int
		want    []string
	}{
		{"apply ban.yaml -r objects.yaml", 1, []string{"the label x is forbidden", "pass: 1, fail: 1"}},
		{"apply ban.yaml -r objects.yaml --policy-report", 1, []string{"source: Sketch", "policy: no-x", "result: fail"}},
		{"apply bad.yaml -r objects.yaml", 1, []string{"spec.forbiddenLabel: a label is required"}},
		{"test .", 0, []string{"2 tests passed and 0 tests failed"}},
		{"explain ban.yaml -r objects.yaml", 0, []string{"the label x is forbidden"}},
	} {
		var out bytes.Buffer
		root := cli.NewRootFor(s.families)
		root.SetOut(&out)
		root.SetErr(&out)
		code := cli.Main(append([]string{"ephor"}, strings.Fields(c.command)...), root)
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("ephor %s does not say %q:\n%s", c.command, want, out.String())
			}
		}
		if code != c.code {
			t.Errorf("ephor %s ends with %d:\n%s", c.command, code, out.String())
		}
	}
}

func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return &u
}
