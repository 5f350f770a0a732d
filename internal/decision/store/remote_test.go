package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// memory is a store for tests. With fail it stores nothing.
type memory struct {
	mu      sync.Mutex
	records []decision.Record
	batches int
	fail    error
}

func (m *memory) Write(_ context.Context, records []decision.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.records, m.batches = append(m.records, records...), m.batches+1
	return nil
}
func (*memory) Close() error { return nil }
func (m *memory) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}
func (m *memory) stored() ([]decision.Record, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records, m.batches
}

// authority issues certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	a.cert = a.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, &key.PublicKey)
	return a
}

func (a *authority) sign(t testing.TB, c *x509.Certificate, public *ecdsa.PublicKey) *x509.Certificate {
	t.Helper()
	c.SerialNumber, c.Subject, c.NotBefore, c.NotAfter = big.NewInt(1), pkix.Name{CommonName: "test"}, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, a.key)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (a *authority) issue(t testing.TB, name string, usage x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := a.sign(t, &x509.Certificate{DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}}, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// A receiver whose listener failed serves another one.
func TestReceiverServesAgain(t *testing.T) {
	to, a := &memory{}, newAuthority(t)
	r := NewReceiver(to, slog.New(slog.DiscardHandler))
	c := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{a.issue(t, "server", x509.ExtKeyUsageServerAuth)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool(),
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	broken, l := listen(), listen()
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Serve(t.Context(), broken, c); err == nil {
		t.Error("served without a listener")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, l, c) }()
	s, err := NewRemote("https://"+l.Addr().String(), func() (*tls.Config, error) {
		return &tls.Config{RootCAs: a.pool(), ServerName: "server", Certificates: []tls.Certificate{a.issue(t, "sender", x509.ExtKeyUsageClientAuth)}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Write(t.Context(), some(1, mathrand.New(mathrand.NewPCG(5, 5)))); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// channel starts a Receiver, and returns a Remote for it.
func channel(t *testing.T, to decision.Store, a *authority) (address string, connect func(client *tls.Config) *Remote) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- NewReceiver(to, slog.New(slog.DiscardHandler)).Serve(ctx, l, &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{a.issue(t, "server", x509.ExtKeyUsageServerAuth)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool(),
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	address = "https://" + l.Addr().String()
	return address, func(client *tls.Config) *Remote {
		s, err := NewRemote(address, func() (*tls.Config, error) { return client.Clone(), nil })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

// Records arrive unchanged, in batches of limited size. The sender gets the errors of the store.
func TestRemote(t *testing.T) {
	to, a := &memory{}, newAuthority(t)
	_, connect := channel(t, to, a)
	s := connect(&tls.Config{RootCAs: a.pool(), ServerName: "server", Certificates: []tls.Certificate{a.issue(t, "sender", x509.ExtKeyUsageClientAuth)}})
	records := some(2500, mathrand.New(mathrand.NewPCG(1, 1)))
	if err := s.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if got, n := to.stored(); !reflect.DeepEqual(got, records) || n != 4 {
		t.Fatalf("%d records in %d batches", len(got), n)
	}
	to.set(errors.New("no space left"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Write(ctx, records[:10]); err == nil || !strings.Contains(err.Error(), "503") && !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "no space") {
		t.Errorf("%v", err)
	}
	// A batch that was stored in part is not sent again.
	to.set(&decision.PartlyStored{Lost: 3, Err: errors.New("rejected")})
	var part *decision.PartlyStored
	if err := s.Write(t.Context(), records[:10]); !errors.As(err, &part) || part.Lost != 3 || strings.Contains(err.Error(), "rejected") {
		t.Errorf("%v", err)
	}
	to.set(nil)
	if err := s.Write(t.Context(), records[:10]); err != nil {
		t.Error(err)
	}
	// The loss of one record that is too long does not affect the others.
	long := some(3, mathrand.New(mathrand.NewPCG(2, 2)))
	long[1].Message = strings.Repeat("x", maxBatchBytes)
	err := s.Write(t.Context(), long)
	var partly *decision.PartlyStored
	if !errors.As(err, &partly) || partly.Lost != 1 {
		t.Errorf("%v", err)
	}
	got, _ := to.stored()
	if n := len(got); n < len(records)+12 || got[n-1].UID != long[2].UID || got[n-2].UID != long[0].UID {
		t.Errorf("%d records are stored", n)
	}
}

// A receiver takes batches only from holders of a certificate of the authority for clients; a sender sends them only to the named server.
func TestMutual(t *testing.T) {
	to, a, other := &memory{}, newAuthority(t), newAuthority(t)
	_, connect := channel(t, to, a)
	for name, c := range map[string]*tls.Config{
		"no certificate":                       {RootCAs: a.pool(), ServerName: "server"},
		"a certificate of another authority":   {RootCAs: a.pool(), ServerName: "server", Certificates: []tls.Certificate{other.issue(t, "sender", x509.ExtKeyUsageClientAuth)}},
		"a certificate of a server":            {RootCAs: a.pool(), ServerName: "server", Certificates: []tls.Certificate{a.issue(t, "sender", x509.ExtKeyUsageServerAuth)}},
		"a server with another name":           {RootCAs: a.pool(), ServerName: "another", Certificates: []tls.Certificate{a.issue(t, "sender", x509.ExtKeyUsageClientAuth)}},
		"a server of another authority":        {RootCAs: other.pool(), ServerName: "server", Certificates: []tls.Certificate{a.issue(t, "sender", x509.ExtKeyUsageClientAuth)}},
		"a version of TLS that is not current": {RootCAs: a.pool(), ServerName: "server", MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.issue(t, "sender", x509.ExtKeyUsageClientAuth)}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := connect(c).Write(ctx, some(1, mathrand.New(mathrand.NewPCG(3, 3)))); err == nil {
			t.Errorf("%s: the batch was stored", name)
		}
		cancel()
	}
	if got, _ := to.stored(); len(got) > 0 {
		t.Errorf("%d records are stored", len(got))
	}
	if err := NewReceiver(to, slog.New(slog.DiscardHandler)).Serve(t.Context(), nil, &tls.Config{}); err == nil {
		t.Error("a receiver serves without a bundle for clients")
	}
}

// A batch that arrives again is stored once. Anything other than a batch is refused.
func TestReceiver(t *testing.T) {
	to := &memory{}
	r := NewReceiver(to, slog.New(slog.DiscardHandler))
	batch := func(id decision.BatchID) string {
		body, err := decision.AppendBatch(nil, id, some(2, mathrand.New(mathrand.NewPCG(4, 4))))
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	first, second, third := batch(decision.NewBatchID()), batch(decision.NewBatchID()), batch(decision.NewBatchID())
	for i, c := range []struct {
		method, path, body string
		status, stored     int
	}{
		{"POST", batchPath, first, 204, 2},
		{"POST", batchPath, first, 204, 2},
		{"POST", batchPath, second, 204, 4},
		{"POST", batchPath, first, 204, 4},
		{"POST", batchPath, third[:len(third)-1], 400, 4},
		{"POST", batchPath, "{}", 400, 4},
		{"POST", batchPath, batch(decision.BatchID{}), 400, 4},
		{"POST", batchPath, strings.Repeat("x", maxBatchBytes+1), 413, 4},
		{"GET", batchPath, "", 405, 4},
		{"POST", "/", third, 404, 4},
		{"POST", batchPath, third, 204, 6},
	} {
		status, _ := r.receive(httptest.NewRequestWithContext(t.Context(), c.method, "https://x"+c.path, strings.NewReader(c.body)))
		if got, _ := to.stored(); status != c.status || len(got) != c.stored {
			t.Errorf("%d: status %d, %d records are stored; want %d, %d", i, status, len(got), c.status, c.stored)
		}
	}
	// A batch of which the store kept a part gets the same answer each time.
	to.set(&decision.PartlyStored{Lost: 1, Err: errors.New("rejected")})
	partly := batch(decision.NewBatchID())
	for range 2 {
		status, text := r.receive(httptest.NewRequestWithContext(t.Context(), "POST", "https://x"+batchPath, strings.NewReader(partly)))
		if status != 204 || text != "1" {
			t.Errorf("a batch that is stored in part: status %d, %q records are lost", status, text)
		}
		to.set(nil)
	}
	if got, _ := to.stored(); len(got) != 6 {
		t.Errorf("%d records are stored, want 6: the rest of the batch was stored later", len(got))
	}
	// A batch of which the store kept nothing is sent again.
	to.set(&decision.PartlyStored{Lost: 2, Err: errors.New("rejected")})
	none := batch(decision.NewBatchID())
	for _, want := range []int{503, 204} {
		if status, _ := r.receive(httptest.NewRequestWithContext(t.Context(), "POST", "https://x"+batchPath, strings.NewReader(none))); status != want {
			t.Errorf("a batch of which nothing was stored: status %d, want %d", status, want)
		}
		to.set(nil)
	}
	if got, _ := to.stored(); len(got) != 8 {
		t.Errorf("%d records are stored, want 8", len(got))
	}
	for range 2 * maxDeliveries {
		r.delivery(decision.NewBatchID())
	}
	if n, m := len(r.deliveries), len(r.order); n != maxDeliveries || m != maxDeliveries {
		t.Errorf("%d and %d batches are remembered", n, m)
	}
}

func TestRemoteAddress(t *testing.T) {
	for _, address := range []string{"http://x:1", "https://", "https://x/path", "https://user@x", "https://x?a=b", "::"} {
		if _, err := NewRemote(address, func() (*tls.Config, error) { return &tls.Config{}, nil }); err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
}
