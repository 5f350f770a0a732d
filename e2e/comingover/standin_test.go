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
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/ephor-dev/ephor/charts"
	"github.com/ephor-dev/ephor/e2e/suite"
	"github.com/ephor-dev/ephor/internal/devcluster"
)

// standIn stands for Kyverno's processes: it holds their Leases without giving them back, keeps webhook configurations in their form while it
// leads, and answers them.
type standIn struct {
	server *http.Server
	addr   string
	ca     []byte
	stop   context.CancelFunc
}

// leases are the names of Kyverno's Leases.
var leases = []string{"kyverno", "kyverno-background-controller"}

// startStandIn starts the stand-in; its name is a part of the holders'.
func startStandIn(t *testing.T, name string) *standIn {
	t.Helper()
	s := &standIn{}
	pair := s.certificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/readiness", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /", review("")) // its other webhooks, which refuse nothing here
	mux.HandleFunc("POST /validate/fail", review("bad"))
	mux.HandleFunc("POST /vpol/no-bad-cel", review("bad-cel"))
	s.server = &http.Server{Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.ServeTLS(l, "", "") }()
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	t.Cleanup(s.end)
	for _, lease := range leases {
		go s.lead(ctx, lease, name)
	}
	return s
}

// end stops the stand-in as a crash would: its Leases run out.
func (s *standIn) end() {
	s.stop()
	_ = s.server.Close()
}

func (s *standIn) backend() devcluster.Backend {
	return devcluster.Backend{Addr: s.addr, Ready: "/health/readiness"}
}

// lead holds the Lease as Kyverno's processes do: with their times, and without giving it back.
func (s *standIn) lead(ctx context.Context, lease, name string) {
	lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: suite.Namespace, Name: lease}, Client: cluster.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name + "-" + lease}}
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

// configure writes the webhook configuration of resources, without an owner, as Kyverno's controller does.
func (s *standIn) configure(ctx context.Context) {
	hook := func(name, path string) registrationv1.ValidatingWebhook {
		none, fail, seconds, port := registrationv1.SideEffectClassNone, registrationv1.Fail, int32(10), int32(8443)
		return registrationv1.ValidatingWebhook{
			Name: name, AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: &seconds,
			ClientConfig: registrationv1.WebhookClientConfig{CABundle: s.ca, Service: &registrationv1.ServiceReference{
				Namespace: suite.Namespace, Name: charts.AdmissionService, Path: &path, Port: &port}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", suite.Namespace}}}},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}
	}
	want := &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: resourceWebhooks, Labels: map[string]string{"webhook.kyverno.io/managed-by": "kyverno"}},
		Webhooks:   []registrationv1.ValidatingWebhook{hook("validate.kyverno.svc-fail", "/validate/fail"), hook("vpol.validate.kyverno.svc-fail-no-bad-cel", "/vpol/no-bad-cel")},
	}
	api := cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	have, err := api.Get(ctx, resourceWebhooks, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, _ = api.Create(ctx, want, metav1.CreateOptions{FieldManager: "kyverno"})
	case err == nil:
		have.OwnerReferences, have.Labels, have.Annotations, have.Webhooks = nil, want.Labels, nil, want.Webhooks
		_, _ = api.Update(ctx, have, metav1.UpdateOptions{FieldManager: "kyverno"})
	}
}

const resourceWebhooks = "kyverno-resource-validating-webhook-cfg"

// review refuses objects that have the label.
func review(label string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in admissionv1.AdmissionReview
		var object metav1.PartialObjectMetadata
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Request == nil {
			http.Error(w, "not a review", http.StatusExpectationFailed)
			return
		}
		if err := json.Unmarshal(in.Request.Object.Raw, &object); err != nil {
			http.Error(w, err.Error(), http.StatusExpectationFailed)
			return
		}
		_, refused := object.Labels[label]
		in.Response = &admissionv1.AdmissionResponse{UID: in.Request.UID, Allowed: !refused}
		if refused {
			in.Response.Result = &metav1.Status{Message: "the label " + label + " is not allowed"}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(in)
	}
}

// certificate reads the certificate of the webhooks, or makes Secrets in Kyverno's form if there is none.
func (s *standIn) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	api := cluster.Client.CoreV1().Secrets(suite.Namespace)
	pair, err := api.Get(t.Context(), charts.AdmissionTLSSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.makeCertificates(t)
		pair, err = api.Get(t.Context(), charts.AdmissionTLSSecret, metav1.GetOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	ca, err := api.Get(t.Context(), charts.AdmissionCASecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.ca = ca.Data["tls.crt"]
	out, err := tls.X509KeyPair(pair.Data["tls.crt"], pair.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *standIn) makeCertificates(t *testing.T) {
	t.Helper()
	name := charts.AdmissionService + "." + suite.Namespace + ".svc"
	caKey, leafKey := newKey(t), newKey(t)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "*.kyverno.svc"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, charts.AdmissionService + "." + suite.Namespace, charts.AdmissionService},
		NotBefore: ca.NotBefore, NotAfter: time.Now().AddDate(0, 0, 150), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for secret, signed := range map[string]struct {
		template *x509.Certificate
		key      *ecdsa.PrivateKey
	}{charts.AdmissionCASecret: {ca, caKey}, charts.AdmissionTLSSecret: {leaf, leafKey}} {
		der, err := x509.CreateCertificate(rand.Reader, signed.template, ca, &signed.key.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		key, err := x509.MarshalPKCS8PrivateKey(signed.key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Client.CoreV1().Secrets(suite.Namespace).Create(t.Context(), &corev1.Secret{
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
