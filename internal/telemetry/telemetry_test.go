package telemetry

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/observe"
)

func TestObserveFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // part of the error; empty for none
	}{
		{nil, ""},
		{[]string{"--otelConfig=grpc", "--metricsPort=4317", "--otelCollector=collector"}, ""},
		{[]string{"--otelConfig=http"}, "neither prometheus nor grpc"},
		{[]string{"--enableTracing", "--tracingAddress=collector"}, ""},
		{[]string{"--enableTracing"}, "needs --tracingAddress"},
		{[]string{"--maxMetricSeries=0"}, "must be positive"},
		{[]string{"--metricsTLSSecretName=x"}, "go together"},
		{[]string{"--metricsKeyAlgorithm=DSA"}, "--metricsKeyAlgorithm"},
	} {
		f := &Flags{}
		fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
		f.Register(fs)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		switch err := f.Complete(); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// Rounds are counted with Kyverno's names of the controllers, and failed ones with the number of consecutive failures. Events of informers
// are counted, too.
func TestCounted(t *testing.T) {
	o := &Telemetry{Metrics: observe.NewMetrics(observe.Options{})}
	counted := o.Rows()
	counted.Controller("webhooks")
	for _, failures := range []int{0, 1, 2, 0, 1} {
		if counted.Reconciled("webhooks"); failures > 0 {
			counted.Requeued("webhooks", failures)
		}
	}
	news := ""
	taken := o.taken(ExceptionsName, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { news += "add " + obj.(string) },
		UpdateFunc: func(old, obj any) { news += " update " + old.(string) + obj.(string) },
		DeleteFunc: func(obj any) { news += " delete " + obj.(string) },
	})
	taken.OnAdd("a", false)
	taken.OnUpdate("a", "b")
	taken.OnDelete("b")
	if news != "add a update ab delete b" {
		t.Error(news)
	}
	w := httptest.NewRecorder()
	o.Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	const scope = `otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version=""`
	for _, want := range []string{
		`kyverno_controller_reconcile_total{controller_name="webhook-controller",` + scope + `} 5`,
		`kyverno_controller_requeue_total{controller_name="webhook-controller",num_requeues="1",` + scope + `} 2`,
		`kyverno_controller_requeue_total{controller_name="webhook-controller",num_requeues="2",` + scope + `} 1`,
		`kyverno_controller_reconcile_total{controller_name="exception-webhook-controller",` + scope + `} 5`,
		`kyverno_controller_requeue_total{controller_name="global-context-webhook-controller",num_requeues="1",` + scope + `} 2`,
		`kyverno_controller_reconcile_total{controller_name="exceptions-controller",` + scope + `} 3`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
}

// The certificate of a collector's authority is read from each of the usual keys of a Secret.
func TestKeysOfTheCollectorsAuthority(t *testing.T) {
	cert, err := os.ReadFile("testdata/authority.pem")
	if err != nil {
		t.Fatal(err)
	}
	for key, known := range map[string]bool{"ca.crt": true, "ca.pem": true, "rootCA.crt": true, "tls.crt": true, "other": false} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n"}, Data: map[string][]byte{key: cert}}
		o := &Telemetry{Process: Process{Namespace: "n"}, core: fake.NewClientset(secret).CoreV1()}
		c, err := o.collectorAt(t.Context(), "collector", 4317, "s")
		if known != (err == nil) || known != (c.TLS != nil) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
