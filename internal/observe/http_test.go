package observe

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHTTP(t *testing.T) {
	m := NewMetrics(Options{})
	handler := m.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/validate/fail":
			_, _ = io.WriteString(w, "answer")
		case "/broken":
			http.Error(w, "no", http.StatusInternalServerError)
		default:
			http.NotFound(w, r)
		}
	}))
	for _, c := range []struct{ method, url string }{
		{http.MethodPost, "/validate/fail?timeout=10s"}, {http.MethodPost, "/validate/fail?timeout=10s"},
		{http.MethodPost, "/validate/fail?anything=else"}, {http.MethodPost, "/broken"}, {http.MethodPost, "/elsewhere"},
		{http.MethodGet, "/health/readiness"}, {"BREW", "/coffee"},
	} {
		r := httptest.NewRequest(c.method, c.url, strings.NewReader("question"))
		r.Host = "kyverno-svc.kyverno.svc:443"
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	text := page(t, m)
	const scope = `otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version=""`
	contains(t, text,
		`kyverno_http_requests_total{http_method="POST",http_url="/validate/fail?timeout=10s",`+scope+`} 2`,
		`kyverno_http_requests_total{http_method="POST",http_url="/validate/fail",`+scope+`} 1`,
		`kyverno_http_requests_total{http_method="POST",http_url="/broken",`+scope+`} 1`,
		`kyverno_http_requests_duration_seconds_count{http_method="POST",http_url="/validate/fail?timeout=10s",`+scope+`} 2`,
	)
	families := parsePage(t, text)
	if n := len(families["kyverno_http_requests_total"].Metric); n != 3 {
		t.Errorf("%d paths", n)
	}
	const server = `http_request_method="POST",http_response_status_code="200",network_protocol_name="http",network_protocol_version="1.1",otel_scope_name="go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",otel_scope_schema_url="",otel_scope_version="0.69.0",server_address="kyverno-svc.kyverno.svc",url_scheme="http"}`
	contains(t, text, `http_server_request_body_size_sum{`+server+` 24`, `http_server_response_body_size_sum{`+server+` 18`, `http_server_request_duration_count{`+server+` 3`)
	if !strings.Contains(text, `http_request_method="other"`) {
		t.Error("an unknown method is a label")
	}
}

func TestPageIsCompressed(t *testing.T) {
	m := NewMetrics(Options{Version: "v1"})
	handler := m.Handler()
	for range 2 { // the second request reuses the writer of the first
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		families := parsePage(t, string(text))
		for _, name := range []string{"kyverno_info", "go_goroutines", "process_resident_memory_bytes", "promhttp_metric_handler_requests_total"} {
			if families[name] == nil {
				t.Errorf("there is no %s", name)
			}
		}
	}
}

func TestQueries(t *testing.T) {
	for _, c := range []struct {
		method, path, accept string
		client               ClientType
		want                 query
	}{
		{"GET", "/api/v1/namespaces/kyverno/secrets/x", "", KubeClient, query{"get", "kubeclient", "Secret", "kyverno"}},
		{"GET", "/api/v1/namespaces", "", KubeClient, query{"list", "kubeclient", "Namespace", ""}},
		{"GET", "/api/v1/namespaces/x", "", KubeClient, query{"get", "kubeclient", "Namespace", ""}},
		{"PUT", "/api/v1/namespaces/x/finalize", "", KubeClient, query{"update", "kubeclient", "Namespace", ""}},
		{"GET", "/api/v1/namespaces?watch=true", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", KubeClient, query{"watch", "metadata", "Namespace", ""}},
		{"PATCH", "/apis/kyverno.io/v1/clusterpolicies/x", "", KubeClient, query{"patch", "kyverno", "ClusterPolicy", ""}},
		{"PUT", "/apis/kyverno.io/v1/namespaces/a/policies/x/status", "", KubeClient, query{"update_status", "kyverno", "Policy", "a"}},
		{"POST", "/apis/reports.kyverno.io/v1/namespaces/a/ephemeralreports", "", KubeClient, query{"create", "kyverno", "EphemeralReport", "a"}},
		{"DELETE", "/apis/wgpolicyk8s.io/v1alpha2/namespaces/a/policyreports", "", KubeClient, query{"delete_collection", "policyreport", "PolicyReport", "a"}},
		{"GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x", "", KubeClient, query{"get", "apiserver", "CustomResourceDefinition", ""}},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/kyverno/leases/x", "", KubeClient, query{"update", "kubeclient", "Lease", "kyverno"}},
		{"DELETE", "/api/v1/namespaces/a/configmaps/x", "", KubeClient, query{"delete", "kubeclient", "ConfigMap", "a"}},
		{"GET", "/api/v1/namespaces/a/configmaps/x", "", DynamicClient, query{"get", "dynamic", "configmaps", "a"}},
		{"GET", "/apis/example.com/v1/things", "", KubeClient, query{"list", "kubeclient", "things", ""}},
		{"GET", "/apis", "", KubeClient, query{}},
		{"GET", "/openapi/v3", "", KubeClient, query{}},
		{"BREW", "/api/v1/pods", "", KubeClient, query{}},
	} {
		r := httptest.NewRequest(c.method, "https://127.0.0.1"+c.path, nil)
		r.Header.Set("Accept", c.accept)
		if got, ok := queryOf(r, string(c.client)); got != c.want && ok || ok != (c.want != query{}) {
			t.Errorf("%s %s: %+v %v, want %+v", c.method, c.path, got, ok, c.want)
		}
	}
	m := NewMetrics(Options{})
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := &http.Client{Transport: m.RoundTripper(KubeClient)(http.DefaultTransport)}
	res, err := client.Get(server.URL + "/api/v1/namespaces/a/pods")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	contains(t, page(t, m), `kyverno_client_queries_total{client_type="kubeclient",operation="list",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",resource_kind="Pod",resource_namespace="a"} 1`)
}

// The page has one format, whatever a collector accepts: in OpenMetrics the two names of one counter would be one.
func TestOneFormat(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	w := httptest.NewRecorder()
	NewMetrics(Options{}).Handler().ServeHTTP(w, r)
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain") || strings.Contains(w.Body.String(), "# EOF") {
		t.Error(got)
	}
}
