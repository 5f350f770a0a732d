package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
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

// fakeSecrets is a store of Secrets. A fake is sufficient, since renewal is our own logic and not Kubernetes'.
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
	if i := f.fakeSecrets[obj.GetName()].Immutable; i != nil && *i {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, obj.GetName(), nil)
	}
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
			// A second reconciliation writes nothing.
			must(t, reconcile(t, f, config(a), start.Add(day)))
			if f.writes != 2 {
				t.Fatalf("second pass wrote: %d", f.writes)
			}
			// Only the leaf is renewed 15 days before its expiry.
			must(t, reconcile(t, f, config(a), start.Add(136*day)))
			if f.writes != 3 || parse(t, f, "pair").Certs[0].NotAfter != start.Add(286*day) || parse(t, f, "ca").Certs[0].NotAfter != start.Add(365*day) {
				t.Fatalf("leaf not renewed alone: %d writes", f.writes)
			}
			// The CA is renewed with its key, and the old certificate stays: a client that trusts only the old one trusts the leaf.
			old := parse(t, f, "ca").Certs[0]
			now := start.Add(351 * day)
			must(t, reconcile(t, f, config(a), now))
			ca = parse(t, f, "ca")
			if len(ca.Certs) != 2 || !ca.Certs[1].Equal(old) || !ca.Newest().Equal(ca.Certs[0]) {
				t.Fatalf("bundle holds %d certificates", len(ca.Certs))
			}
			newLeaf := parse(t, f, "pair").Certs[0]
			must(t, verify([]*x509.Certificate{newLeaf}, []*x509.Certificate{old}, now))
			must(t, verify([]*x509.Certificate{newLeaf}, ca.Certs[:1], now))
			// An expired CA certificate leaves the bundle.
			must(t, reconcile(t, f, config(a), start.Add(366*day)))
			if got := len(parse(t, f, "ca").Certs); got != 1 {
				t.Errorf("bundle holds %d certificates", got)
			}
		})
	}
}

// Secrets that a user made immutable are renewed, too: the CA keeps its key, and the bundle the older certificate.
func TestImmutableSecretsAreRenewed(t *testing.T) {
	f := &fakeWriter{fakeSecrets: fakeSecrets{}}
	must(t, reconcile(t, f, config(ECDSA), start))
	before := parse(t, f, "ca")
	for _, s := range f.fakeSecrets {
		s.Immutable = ptr.To(true)
	}
	must(t, reconcile(t, f, config(ECDSA), start.Add(351*day)))
	after, leaf := parse(t, f, "ca"), parse(t, f, "pair")
	if len(after.Certs) != 2 || !after.Certs[1].Equal(before.Certs[0]) || !sameKey(after.Certs[0], before.Certs[0]) {
		t.Errorf("the bundle holds %d certificates", len(after.Certs))
	}
	if end := leaf.Certs[0].NotAfter; end != start.Add(501*day) {
		t.Errorf("the serving certificate ends %s", end)
	}
	// The older certificate leaves the bundle, which is written without another certificate.
	f.fakeSecrets["ca"].Immutable = ptr.To(true)
	must(t, reconcile(t, f, config(ECDSA), start.Add(366*day)))
	if got := parse(t, f, "ca"); len(got.Certs) != 1 || !got.Certs[0].Equal(after.Certs[0]) {
		t.Errorf("the bundle holds %d certificates", len(got.Certs))
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
	noKey := func(s *corev1.Secret) { unmanaged(s); delete(s.Data, "tls.key") }
	opaque := func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }
	frozen := func(s *corev1.Secret) { s.Immutable = ptr.To(true) }
	own, others := [][]byte{Bundle(ca)}, [][]byte{Bundle(ca), Bundle(foreign.fakeSecrets["ca"])}
	wide := config(ECDSA)
	wide.Names = ServiceNames("kyverno-svc", "kyverno", "10.0.0.1:9443")
	for _, c := range []struct {
		name  string
		cfg   Config // config(ECDSA) if empty
		state State
		after time.Duration
		want  string // the plan as a short text
		fail  string // part of the error
	}{
		{name: "all is well", state: State{CA: ca, TLS: pair}},
		{name: "nothing there", want: "ca newKey tls"},
		{name: "no leaf", state: State{CA: ca}, want: "tls"},
		{name: "no leaf, and the clients trust the CA", state: State{CA: ca, Published: own}, want: "tls"},
		{name: "no leaf, and a client does not trust the CA yet", state: State{CA: ca, Published: others}, want: "wait"},
		{name: "no CA", state: State{TLS: pair}, want: "ca newKey tls"},
		{name: "no CA, but clients: what they trust stays", state: State{TLS: pair, Published: own}, want: "ca newKey keep=1 wait"},
		{name: "neither, but a server still serves", state: State{Serving: parse(t, f, "pair").Certs, Published: own}, want: "ca newKey keep=1 wait"},
		{name: "neither, and clients trust an unrelated CA", state: State{Serving: parse(t, f, "pair").Certs, Published: others[1:]}, want: "ca newKey wait"},
		{name: "the leaf is another CA's", state: State{CA: ca, TLS: foreign.fakeSecrets["pair"]}, want: "tls"},
		{name: "a broken CA of ours", state: State{CA: with(ca, broken), TLS: pair}, want: "ca newKey tls"},
		{name: "a CA with another's key", state: State{CA: with(ca, func(s *corev1.Secret) { s.Data["tls.key"] = pair.Data["tls.key"] }), TLS: pair}, want: "ca newKey tls"},
		{name: "a broken CA of another owner", state: State{CA: with(ca, func(s *corev1.Secret) { broken(s); unmanaged(s) }), TLS: pair}, fail: "we can't renew them"},
		{name: "a valid pair of another owner", state: State{CA: with(ca, unmanaged), TLS: with(pair, unmanaged)}},
		{name: "a pair of another owner in Secrets of another type", state: State{
			CA:  with(ca, func(s *corev1.Secret) { unmanaged(s); opaque(s) }),
			TLS: with(pair, func(s *corev1.Secret) { unmanaged(s); opaque(s) }),
		}},
		{name: "a CA of another owner without its key", state: State{CA: with(ca, noKey), TLS: with(pair, unmanaged)}},
		{name: "a CA of another owner without its key, and no leaf", state: State{CA: with(ca, noKey)}, fail: "no key that could sign"},
		{name: "a CA of another owner signs our leaf", state: State{CA: with(ca, unmanaged)}, want: "tls"},
		{name: "a leaf of another owner without a CA", state: State{TLS: with(pair, unmanaged)}, fail: "we can't renew them"},
		{name: "an ending pair of another owner is still served", state: State{CA: with(ca, unmanaged), TLS: with(pair, unmanaged)}, after: 140 * day},
		{name: "an ended pair of another owner", state: State{CA: with(ca, unmanaged), TLS: with(pair, unmanaged)}, after: 151 * day, fail: "we can't renew them"},
		{name: "an ended CA of another owner", state: State{CA: with(ca, unmanaged), TLS: with(pair, unmanaged)}, after: 366 * day, fail: "the CA in the Secret ca has ended"},
		{name: "another type", state: State{CA: with(ca, opaque), TLS: pair}, want: "ca newKey replaceCA tls"},
		{name: "immutable, and nothing ends", state: State{CA: with(ca, frozen), TLS: with(pair, frozen)}},
		{name: "immutable, and the leaf ends soon", state: State{CA: with(ca, frozen), TLS: with(pair, frozen), Published: own}, after: 140 * day, want: "tls replaceTLS"},
		{name: "immutable, and the CA ends soon", state: State{CA: with(ca, frozen), TLS: with(pair, frozen), Published: own}, after: 340 * day, want: "ca replaceCA keep=1 tls replaceTLS"},
		{name: "immutable and broken", state: State{CA: with(ca, func(s *corev1.Secret) { broken(s); frozen(s) }), TLS: pair}, want: "ca newKey replaceCA tls"},
		{name: "the CA ends soon", state: State{CA: ca, TLS: pair, Published: own}, after: 340 * day, want: "ca keep=1 tls"},
		{name: "the CA ends soon, and another algorithm is asked for", cfg: config(RSA), state: State{CA: ca, TLS: pair, Published: own}, after: 340 * day, want: "ca newKey keep=1 wait"},
		{name: "another algorithm is asked for, nothing ends", cfg: config(RSA), state: State{CA: ca, TLS: pair}},
		{name: "the clock was set back", state: State{CA: ca, TLS: pair}, after: -30 * day, want: "ca keep=1 tls"},
		{name: "a name is missing", cfg: wide, state: State{CA: ca, TLS: pair}, want: "tls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cfg.CASecret == "" {
				c.cfg = config(ECDSA)
			}
			p, err := Make(c.cfg, c.state, start.Add(time.Hour+c.after))
			if c.fail == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fail) {
				t.Fatalf("error: %v, want %q", err, c.fail)
			}
			if got := words(p); err == nil && got != c.want {
				t.Errorf("%q, want %q (%s)", got, c.want, p.Reason)
			}
		})
	}
}

// words returns a short text for a plan.
func words(p Plan) string {
	var out []string
	for _, w := range []struct {
		on   bool
		word string
	}{
		{p.RenewCA, "ca"}, {p.NewKey, "newKey"}, {p.WriteCA && !p.RenewCA, "tidy"}, {p.ReplaceCA, "replaceCA"},
		{len(p.Keep) > 0, fmt.Sprint("keep=", len(p.Keep))}, {p.RenewTLS, "tls"}, {p.ReplaceTLS, "replaceTLS"}, {p.Wait, "wait"},
	} {
		if w.on {
			out = append(out, w.word)
		}
	}
	return strings.Join(out, " ")
}

func TestServiceNames(t *testing.T) {
	if n := ServiceNames("s", "n", "10.1.2.3:9443"); len(n.IPs) != 1 || !n.IPs[0].Equal(net.IPv4(10, 1, 2, 3)) || len(n.DNS) != 3 {
		t.Errorf("%+v", n)
	}
	for _, address := range []string{"[fd00::1]", "[fd00::1]:9443", "fd00::1"} { // an URL has an IPv6 address in brackets
		if n := ServiceNames("s", "n", address); len(n.IPs) != 1 || !n.IPs[0].Equal(net.ParseIP("fd00::1")) || len(n.DNS) != 3 {
			t.Errorf("%s: %+v", address, n)
		}
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
	if k.load(nil, nil, start) == nil {
		t.Error("no Secrets is an error")
	}
	f := &fakeWriter{fakeSecrets: fakeSecrets{}}
	must(t, reconcile(t, f, config(RSA), start))
	must(t, k.load(f.fakeSecrets["ca"], f.fakeSecrets["pair"], start))
	must(t, k.Verify(start.Add(time.Hour)))
	if k.Verify(start.Add(151*day)) == nil {
		t.Error("an ended certificate cannot be served")
	}
	before, _ := k.GetCertificate(nil)
	if k.load(f.fakeSecrets["ca"], &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pair"}}, start) == nil {
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

// A supplied pair that clients would refuse, since it names another server or is for another purpose, does not replace one that they accept.
func TestKeeperRefusesOtherNames(t *testing.T) {
	f := &fakeWriter{fakeSecrets: fakeSecrets{}}
	must(t, reconcile(t, f, config(ECDSA), start))
	ca := parse(t, f, "ca")
	secret := func(cfg Config) *corev1.Secret {
		leaf, err := issueLeaf(ca, &cfg, start)
		must(t, err)
		cert, key, err := leaf.Encode()
		must(t, err)
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pair"}, Data: map[string][]byte{"tls.crt": cert, "tls.key": key}}
	}
	other, client, fresh := config(ECDSA), config(ECDSA), config(ECDSA)
	other.Names, client.Client = ServiceNames("other", "kyverno", ""), true
	for _, name := range []string{config(ECDSA).Names.Host(), ""} {
		k := Keeper{Name: name}
		must(t, k.load(f.fakeSecrets["ca"], f.fakeSecrets["pair"], start))
		for _, wrong := range []Config{other, client} {
			if err := k.load(f.fakeSecrets["ca"], secret(wrong), start); (err != nil) != (name != "") {
				t.Errorf("name %q: %v", name, err)
			}
		}
		must(t, k.load(f.fakeSecrets["ca"], secret(fresh), start))
	}
	k := Keeper{Name: config(ECDSA).Names.Host()} // any pair is better than none, or than another one that clients refuse
	must(t, k.load(f.fakeSecrets["ca"], secret(other), start))
	must(t, k.load(f.fakeSecrets["ca"], secret(client), start))
	for address, want := range map[string]string{"": "s.n.svc", "10.1.2.3:9443": "10.1.2.3", "dev.example.com": "dev.example.com"} {
		if got := ServiceNames("s", "n", address).Host(); got != want {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
	}
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

// A certificate in the place of our authority that may sign nothing is replaced by an authority: no serving certificate would verify.
func TestNoAuthority(t *testing.T) {
	for name, change := range map[string]func(*x509.Certificate){
		"not an authority": func(c *x509.Certificate) { c.IsCA = false },
		"no right to sign": func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature },
	} {
		f := &fakeWriter{fakeSecrets: fakeSecrets{}}
		must(t, reconcile(t, f, config(ECDSA), start))
		ca := parse(t, f, "ca")
		template := *ca.Certs[0]
		change(&template)
		c, err := sign(&template, &template, ca.Key.Public(), ca.Key)
		must(t, err)
		f.fakeSecrets["ca"].Data["tls.crt"], _, err = (&Pair{Certs: []*x509.Certificate{c}, Key: ca.Key}).Encode()
		must(t, err)
		for i := range 3 {
			must(t, reconcile(t, f, config(ECDSA), start.Add(time.Duration(i)*Interval)))
		}
		if err := verify(parse(t, f, "pair").Certs, parse(t, f, "ca").Certs, start.Add(time.Minute)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
