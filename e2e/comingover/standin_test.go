package comingover

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"ephor.invalid/ephor/charts"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// standIn represents Kyverno's processes: it holds their Leases without releasing them, writes webhook configurations in their format while
// it leads, and answers them.
type standIn struct {
	client      kubernetes.Interface
	recorded    *recordings
	server      *http.Server
	addr        string
	port        int32
	authorities map[string][]byte // by name of the Service
	stop        context.CancelFunc
	form        form
}

// form is what the stand-in does with the classic kinds: Kyverno 1.19 executes them. From 1.20 it denies their writes; in the grace form it
// still executes what is stored and accepts an unchanged spec, in the hard form it does neither. Both come from the public plan of 1.20.
type form int

const (
	executes form = iota
	grace
	hard
)

// leases maps the names of Kyverno's Leases to the names of the processes that hold them.
var leases = map[string]string{
	"kyverno": "kyverno-admission-controller", "kyverno-background-controller": "kyverno-background-controller",
	"kyverno-cleanup-controller": "kyverno-cleanup-controller", "kyverno-reports-controller": "kyverno-reports-controller",
}

// startStandIn starts the stand-in; the names of the holders end with pod.
func startStandIn(t *testing.T, client kubernetes.Interface, recorded *recordings, pod string, forms ...form) *standIn {
	t.Helper()
	s := &standIn{client: client, recorded: recorded, authorities: map[string][]byte{}}
	if len(forms) > 0 {
		s.form = forms[0]
	}
	service, err := client.CoreV1().Services(suite.Namespace).Get(t.Context(), charts.AdmissionService, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.port = service.Spec.Ports[0].Port
	pairs := map[string]*tls.Certificate{}
	for _, name := range []string{charts.AdmissionService, charts.CleanupService} {
		pairs[name+"."+suite.Namespace+".svc"] = s.certificate(t, name)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	s.server = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if pair := pairs[hello.ServerName]; pair != nil {
				return pair, nil
			}
			return pairs[charts.AdmissionService+"."+suite.Namespace+".svc"], nil // probes send no server name
		},
	}}
	go func() { _ = s.server.ServeTLS(l, "", "") }()
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	t.Cleanup(s.end)
	for lease, process := range leases {
		go s.lead(ctx, lease, process+"-"+pod)
	}
	return s
}

// routes returns the paths that Kyverno answers. It answers all others with 404, including paths with a secret segment.
func (s *standIn) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/readiness", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /validate/fail", review(func(o *reviewed) string { return o.labelled("bad") + o.latest() }))
	mux.HandleFunc("POST /vpol/no-bad-cel", review(func(o *reviewed) string { return o.labelled("bad-cel") }))
	mux.HandleFunc("POST /mutate/fail", mutate)
	for _, path := range []string{
		"/celexception/validate", "/validate", "/exceptionvalidate", "/globalcontextvalidate", "/validate/ignore/finegrained/rec-fine", "/verifyttl",
		"/policymutate", "/verifymutate",
	} {
		mux.HandleFunc("POST "+path, review(func(*reviewed) string { return "" })) // they deny nothing here
	}
	mux.HandleFunc("POST /policyvalidate", s.reviewPolicy)
	return mux
}

// reviewPolicy denies writes of classic kinds as the form says; deletions pass.
func (s *standIn) reviewPolicy(w http.ResponseWriter, r *http.Request) {
	var in admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Request == nil {
		http.Error(w, "not a review", http.StatusExpectationFailed)
		return
	}
	specOf := func(raw []byte) string {
		var o struct{ Spec any }
		_ = json.Unmarshal(raw, &o)
		text, _ := json.Marshal(o.Spec)
		return string(text)
	}
	same := in.Request.Operation == admissionv1.Update && specOf(in.Request.Object.Raw) == specOf(in.Request.OldObject.Raw)
	in.Response = &admissionv1.AdmissionResponse{UID: in.Request.UID, Allowed: s.form == executes || s.form == grace && same || in.Request.Operation == admissionv1.Delete}
	if !in.Response.Allowed {
		in.Response.Result = &metav1.Status{Message: "this kind is no longer supported"}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(in)
}

// end stops the stand-in like a crash: its Leases expire, and open requests are cut off.
func (s *standIn) end() {
	s.stop()
	_ = s.server.Close()
}

// leave stops the stand-in like a Pod that is replaced: it answers open requests.
func (s *standIn) leave(t *testing.T) {
	t.Helper()
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), devcluster.Patience())
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		t.Errorf("the stand-in still answers: %v", err)
	}
}

func (s *standIn) backend() devcluster.Backend {
	return devcluster.Backend{Addr: s.addr, Ready: "/health/readiness"}
}

// lead holds the Lease like Kyverno's processes: with their durations, and without releasing it.
func (s *standIn) lead(ctx context.Context, lease, holder string) {
	lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: suite.Namespace, Name: lease}, Client: s.client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: holder}}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, RetryPeriod: 2 * time.Second, RenewDeadline: 10 * time.Second, LeaseDuration: 12 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{OnStoppedLeading: func() {}, OnStartedLeading: func(ctx context.Context) {
			for lease == "kyverno" && ctx.Err() == nil {
				s.configure(ctx)
				time.Sleep(500 * time.Millisecond)
			}
		}},
	})
}

// configure writes webhook configurations without an owner, like Kyverno's controller: the recorded ones, and a webhook for the CEL policy,
// which the recorded installation did not have.
func (s *standIn) configure(ctx context.Context) {
	hook := func(name, path string) registrationv1.ValidatingWebhook {
		none, fail, seconds := registrationv1.SideEffectClassNone, registrationv1.Fail, int32(10)
		return registrationv1.ValidatingWebhook{
			Name: name, AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: &seconds,
			ClientConfig: registrationv1.WebhookClientConfig{CABundle: s.authorities[charts.AdmissionService], Service: &registrationv1.ServiceReference{
				Namespace: suite.Namespace, Name: charts.AdmissionService, Path: &path, Port: &s.port}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", suite.Namespace}}}},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}
	}
	labels := map[string]string{"webhook.kyverno.io/managed-by": "kyverno"}
	inCEL := hook("vpol.validate.kyverno.svc-fail-no-bad-cel", "/vpol/no-bad-cel")
	validating, mutating := s.recorded.configurations(s.port, s.authorities)
	if s.recorded == nil {
		validating = []*registrationv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: resourceWebhooks, Labels: labels},
			Webhooks:   []registrationv1.ValidatingWebhook{hook("validate.kyverno.svc-fail", "/validate/fail"), inCEL},
		}}
		if s.form == hard {
			validating[0].Webhooks = []registrationv1.ValidatingWebhook{inCEL}
		}
		if s.form != executes {
			policies := hook("validate-policy.kyverno.svc", "/policyvalidate")
			policies.NamespaceSelector = nil
			policies.Rules[0].Rule = registrationv1.Rule{APIGroups: []string{"kyverno.io"}, APIVersions: []string{"*"}, Resources: []string{"clusterpolicies", "policies", "cleanuppolicies", "clustercleanuppolicies", "policyexceptions"}}
			validating = append(validating, &registrationv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "kyverno-policy-validating-webhook-cfg", Labels: labels}, Webhooks: []registrationv1.ValidatingWebhook{policies},
			})
		}
		// Kyverno also has a configuration for mutations, which has no webhook while no policy mutates.
		mutating = []*registrationv1.MutatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "kyverno-resource-mutating-webhook-cfg", Labels: labels}}}
	}
	for _, c := range validating {
		if s.recorded != nil && c.Name == resourceWebhooks {
			c.Webhooks = append(c.Webhooks, inCEL)
		}
	}
	write(ctx, s.client, validating, mutating)
}

const resourceWebhooks = "kyverno-resource-validating-webhook-cfg"

// reviewed contains the fields of a reviewed object that the stand-in reads.
type reviewed struct {
	Kind     string
	Metadata struct {
		Namespace string
		Labels    map[string]string
	}
	Spec struct{ Containers []struct{ Image string } }
}

// labelled denies objects that have the label.
func (o *reviewed) labelled(label string) string {
	if _, has := o.Metadata.Labels[label]; has {
		return "the label " + label + " is not allowed"
	}
	return ""
}

// latest denies the same objects as the recorded Policy rec-ns.
func (o *reviewed) latest() string {
	for _, c := range o.Spec.Containers {
		if o.Kind == "Pod" && o.Metadata.Namespace == "rec" && strings.HasSuffix(c.Image, ":latest") {
			return "validation failure: no latest"
		}
	}
	return ""
}

// review answers a review. refuse returns the reason for a denial, or an empty text.
func review(refuse func(*reviewed) string) http.HandlerFunc {
	return answer(func(o *reviewed, out *admissionv1.AdmissionResponse) {
		if why := refuse(o); why != "" {
			out.Allowed, out.Result = false, &metav1.Status{Message: why}
		}
	})
}

// mutate adds the label that the recorded policy rec-mutate adds.
var mutate = answer(func(o *reviewed, out *admissionv1.AdmissionResponse) {
	if o.Kind != "ConfigMap" || o.Metadata.Labels["added"] != "" {
		return
	}
	patch := `[{"op":"add","path":"/metadata/labels/added","value":"yes-added"}]`
	if o.Metadata.Labels == nil {
		patch = `[{"op":"add","path":"/metadata/labels","value":{"added":"yes-added"}}]`
	}
	kind := admissionv1.PatchTypeJSONPatch
	out.Patch, out.PatchType = []byte(patch), &kind
})

// answer reads the object of a review and writes the response. The response admits the request unless fill changes it.
func answer(fill func(*reviewed, *admissionv1.AdmissionResponse)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in admissionv1.AdmissionReview
		var object reviewed
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Request == nil {
			http.Error(w, "not a review", http.StatusExpectationFailed)
			return
		}
		if len(in.Request.Object.Raw) > 0 { // a deletion has none
			if err := json.Unmarshal(in.Request.Object.Raw, &object); err != nil {
				http.Error(w, err.Error(), http.StatusExpectationFailed)
				return
			}
		}
		in.Response = &admissionv1.AdmissionResponse{UID: in.Request.UID, Allowed: true}
		fill(&object, in.Response)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(in)
	}
}

// certificate returns the certificate of the webhooks of a Service. It creates Secrets in Kyverno's format if there are none.
func (s *standIn) certificate(t *testing.T, service string) *tls.Certificate {
	t.Helper()
	name := service + "." + suite.Namespace + ".svc"
	api := s.client.CoreV1().Secrets(suite.Namespace)
	pair, err := api.Get(t.Context(), name+pairSuffix, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.makeCertificates(t, service)
		pair, err = api.Get(t.Context(), name+pairSuffix, metav1.GetOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	ca, err := api.Get(t.Context(), name+authoritySuffix, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.authorities[service] = ca.Data["tls.crt"]
	out, err := tls.X509KeyPair(pair.Data["tls.crt"], pair.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	return &out
}

// The names of Kyverno's Secrets are the name of the Service in the cluster and these suffixes.
const authoritySuffix, pairSuffix = ".kyverno-tls-ca", ".kyverno-tls-pair"

func (s *standIn) makeCertificates(t *testing.T, service string) {
	t.Helper()
	name := service + "." + suite.Namespace + ".svc"
	caKey, leafKey := newKey(t), newKey(t)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "*.kyverno.svc"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, service + "." + suite.Namespace, service},
		NotBefore: ca.NotBefore, NotAfter: time.Now().AddDate(0, 0, 150), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for secret, signed := range map[string]struct {
		template *x509.Certificate
		key      *ecdsa.PrivateKey
	}{name + authoritySuffix: {ca, caKey}, name + pairSuffix: {leaf, leafKey}} {
		der, err := x509.CreateCertificate(rand.Reader, signed.template, ca, &signed.key.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		key, err := x509.MarshalPKCS8PrivateKey(signed.key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.CoreV1().Secrets(suite.Namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: secret, Labels: map[string]string{"cert.kyverno.io/managed-by": "kyverno"}}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
