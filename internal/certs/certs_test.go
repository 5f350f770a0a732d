package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func config(a Algorithm) Config {
	return Config{
		Namespace: "kyverno", CASecret: "ca", TLSSecret: "pair", Names: ServiceNames("kyverno-svc", "kyverno", ""),
		Algorithm: a, RenewBefore: 15 * day,
	}
}

// fakeSecrets is a store of Secrets: what a renewal means is ours to define, not Kubernetes'.
type fakeSecrets map[string]*corev1.Secret

func (f fakeSecrets) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s, ok := f[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	s.DeepCopyInto(obj.(*corev1.Secret))
	return nil
}

type fakeWriter struct {
	client.Writer
	fakeSecrets
	writes int
}

func (f *fakeWriter) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	if _, exists := f.fakeSecrets[obj.GetName()]; exists {
		return errors.New("already exists")
	}
	f.writes++
	f.fakeSecrets[obj.GetName()] = obj.(*corev1.Secret).DeepCopy()
	return nil
}

func (f *fakeWriter) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	f.writes++
	f.fakeSecrets[obj.GetName()] = obj.(*corev1.Secret).DeepCopy()
	return nil
}

func (f *fakeWriter) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	delete(f.fakeSecrets, obj.GetName())
	return nil
}

type reader struct {
	client.Reader
	fakeSecrets
}

func (r reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	return r.fakeSecrets.Get(ctx, key, obj, o...)
}

func reconcile(t *testing.T, f *fakeWriter, cfg Config, now time.Time) error {
	t.Helper()
	r := &Reconciler{Config: cfg, Client: f, Reader: reader{fakeSecrets: f.fakeSecrets}, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	_, err := r.Reconcile(context.Background())
	return err
}

func TestLifeOfCertificates(t *testing.T) {
	for _, a := range []Algorithm{RSA, ECDSA, Ed25519} {
		t.Run(string(a), func(t *testing.T) {
			f := &fakeWriter{fakeSecrets: fakeSecrets{}}
			must(t, reconcile(t, f, config(a), start))
			if f.writes != 2 {
				t.Fatalf("first: %d writes", f.writes)
			}
			ca, leaf := parse(t, f, "ca"), parse(t, f, "pair")
			if c := ca.Certs[0]; c.Subject.CommonName != "*.kyverno.svc" || !c.IsCA || c.SerialNumber.Sign() != 0 || c.NotAfter != start.Add(365*day) || c.NotBefore != start.Add(-time.Hour) {
				t.Errorf("CA: %+v", c.Subject)
			}
			if c := leaf.Certs[0]; c.Subject.CommonName != "kyverno-svc" || c.SerialNumber.Int64() != 1 || c.NotAfter != start.Add(150*day) ||
				strings.Join(c.DNSNames, " ") != "kyverno-svc kyverno-svc.kyverno kyverno-svc.kyverno.svc" || c.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
				t.Errorf("leaf: %+v", c)
			}
			if s := f.fakeSecrets["ca"]; s.Type != corev1.SecretTypeTLS || s.Labels["cert.kyverno.io/managed-by"] != "kyverno" {
				t.Errorf("Secret: %v %v", s.Type, s.Labels)
			}
			if algorithmOf(ca.Key) != a || algorithmOf(leaf.Key) != a {
				t.Error("wrong algorithm")
			}
			// Twice writes nothing the second time.
			must(t, reconcile(t, f, config(a), start.Add(day)))
			if f.writes != 2 {
				t.Fatalf("second pass wrote: %d", f.writes)
			}
			// The leaf alone is renewed 15 days before its end.
			must(t, reconcile(t, f, config(a), start.Add(136*day)))
			if f.writes != 3 || parse(t, f, "pair").Certs[0].NotAfter != start.Add(286*day) || parse(t, f, "ca").Certs[0].NotAfter != start.Add(365*day) {
				t.Fatalf("leaf not renewed alone: %d writes", f.writes)
			}
			// The CA is renewed with its key; the old certificate stays; who trusts only the old one trusts the leaf.
			old := parse(t, f, "ca").Certs[0]
			now := start.Add(351 * day)
			must(t, reconcile(t, f, config(a), now))
			ca = parse(t, f, "ca")
			if len(ca.Certs) != 2 || !ca.Certs[1].Equal(old) || !ca.Newest().Equal(ca.Certs[0]) {
				t.Fatalf("bundle holds %d certificates", len(ca.Certs))
			}
			newLeaf := parse(t, f, "pair").Certs[0]
			must(t, verify(newLeaf, []*x509.Certificate{old}, now))
			must(t, verify(newLeaf, ca.Certs[:1], now))
			// An expired CA certificate leaves the bundle at the next renewal.
			now = start.Add((351 + 351) * day)
			must(t, reconcile(t, f, config(a), now))
			if got := len(parse(t, f, "ca").Certs); got != 2 {
				t.Errorf("bundle holds %d certificates", got)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	f := &fakeWriter{fakeSecrets: fakeSecrets{}}
	must(t, reconcile(t, f, config(ECDSA), start))
	ca, pair := f.fakeSecrets["ca"], f.fakeSecrets["pair"]
	with := func(s *corev1.Secret, change func(*corev1.Secret)) *corev1.Secret {
		c := s.DeepCopy()
		change(c)
		return c
	}
	unmanaged := func(s *corev1.Secret) { s.Labels = nil }
	broken := func(s *corev1.Secret) { s.Data = map[string][]byte{"tls.crt": []byte("x")} }
	foreign := &fakeWriter{fakeSecrets: fakeSecrets{}}
	must(t, reconcile(t, foreign, config(ECDSA), start))
	for _, c := range []struct {
		name            string
		cfg             Config
		state           State
		after           time.Duration
		ca, tls         bool
		replaceCA, fail bool
	}{
		{name: "all is well", state: State{ca, pair}},
		{name: "nothing there", ca: true, tls: true},
		{name: "no leaf", state: State{CA: ca}, tls: true},
		{name: "no CA", state: State{TLS: pair}, ca: true, tls: true},
		{name: "the leaf is another CA's", state: State{ca, foreign.fakeSecrets["pair"]}, tls: true},
		{name: "a broken CA of ours", state: State{with(ca, broken), pair}, ca: true, tls: true},
		{name: "a broken CA of somebody else's", state: State{with(ca, func(s *corev1.Secret) { broken(s); unmanaged(s) }), pair}, fail: true},
		{name: "a valid pair of somebody else's", state: State{with(ca, unmanaged), with(pair, unmanaged)}},
		{name: "an ending pair of somebody else's", state: State{with(ca, unmanaged), with(pair, unmanaged)}, after: 140 * day, fail: true},
		{name: "another type", state: State{with(ca, func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), pair}, ca: true, tls: true, replaceCA: true},
		{name: "the CA's key is of another algorithm", cfg: config(RSA), state: State{ca, pair}, after: 360 * day, fail: true},
		{name: "a name is missing", cfg: func() Config {
			c := config(ECDSA)
			c.Names = ServiceNames("kyverno-svc", "kyverno", "10.0.0.1:9443")
			return c
		}(), state: State{ca, pair}, tls: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cfg.CASecret == "" {
				c.cfg = config(ECDSA)
			}
			p, err := Make(c.cfg, c.state, start.Add(time.Hour+c.after))
			if c.fail != (err != nil) {
				t.Fatalf("error: %v", err)
			}
			if err == nil && (p.RenewCA != c.ca || p.RenewTLS != c.tls || p.ReplaceCA != c.replaceCA) {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestServiceNames(t *testing.T) {
	if n := ServiceNames("s", "n", "10.1.2.3:9443"); len(n.IPs) != 1 || !n.IPs[0].Equal(net.IPv4(10, 1, 2, 3)) || len(n.DNS) != 3 {
		t.Errorf("%+v", n)
	}
	if n := ServiceNames("s", "n", "dev.example.com"); n.DNS[3] != "dev.example.com" || len(n.IPs) != 0 {
		t.Errorf("%+v", n)
	}
}

func TestKeeper(t *testing.T) {
	var k Keeper
	if _, err := k.GetCertificate(nil); err == nil {
		t.Error("an empty Keeper has no certificate")
	}
	if k.Load(nil, nil) == nil {
		t.Error("no Secrets is an error")
	}
	f := &fakeWriter{fakeSecrets: fakeSecrets{}}
	must(t, reconcile(t, f, config(RSA), start))
	must(t, k.Load(f.fakeSecrets["ca"], f.fakeSecrets["pair"]))
	must(t, k.Verify(start.Add(time.Hour)))
	if k.Verify(start.Add(151*day)) == nil {
		t.Error("an ended certificate cannot be served")
	}
	before, _ := k.GetCertificate(nil)
	if k.Load(f.fakeSecrets["ca"], &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pair"}}) == nil {
		t.Error("a Secret without content is an error")
	}
	if after, _ := k.GetCertificate(nil); after != before {
		t.Error("the pair in use was dropped")
	}
	// A handshake with the bundle as the only root.
	server, conn := net.Pipe()
	go func() {
		s := tls.Server(server, &tls.Config{GetCertificate: k.GetCertificate, Time: func() time.Time { return start }})
		_ = s.Handshake()
	}()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(Bundle(f.fakeSecrets["ca"]))
	must(t, tls.Client(conn, &tls.Config{RootCAs: pool, ServerName: "kyverno-svc.kyverno.svc", Time: func() time.Time { return start }}).Handshake())
}

func TestParseAlgorithm(t *testing.T) {
	if a, err := ParseAlgorithm("ed25519"); a != Ed25519 || err != nil {
		t.Error(a, err)
	}
	if _, err := ParseAlgorithm("DSA"); err == nil {
		t.Error("DSA was taken")
	}
}

func parse(t *testing.T, f *fakeWriter, name string) *Pair {
	t.Helper()
	p, err := ParsePair(f.fakeSecrets[name].Data["tls.crt"], f.fakeSecrets[name].Data["tls.key"])
	must(t, err)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
