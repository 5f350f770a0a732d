package admission

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// debugging returns a logger of level Debug.
func debugging(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (a *authority) issue(t *testing.T, name string, use x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{use},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// listen serves TLS on a free port until the test ends.
func listen(t *testing.T, srv *Server, certificate tls.Certificate) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: srv, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), ReadHeaderTimeout: time.Minute,
		TLSConfig: srv.Clients.serverTLS(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }),
	}
	go func() { _ = server.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return "https://" + l.Addr().String()
}

// Row S25 of docs/security/threat-model.md: with client authorities, reviews of clients without an API server's certificate are refused,
// and the kubelet's probes are answered. The authorities may change at any time.
func TestS25ClientCertificates(t *testing.T) {
	own, api, stranger := newAuthority(t), newAuthority(t), newAuthority(t)
	trusted, problem := api.pool(), error(nil)
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	srv.Clients = Clients{Authorities: func() (*x509.CertPool, error) { return trusted, problem }, Names: []string{"kube-apiserver"}, QPS: 0.001, Burst: 1}
	srv.gate.Clients = srv.Clients
	url := listen(t, srv, own.issue(t, "ephor", x509.ExtKeyUsageServerAuth))
	do := func(method, path string, certificate ...tls.Certificate) (int, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: own.pool(), Certificates: certificate}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, bytes.NewReader(configMap(team)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		res, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			return 0, err
		}
		if res.ProtoMajor != 1 {
			t.Errorf("%s is offered", res.Proto) // the client asks for HTTP/2
		}
		return res.StatusCode, res.Body.Close()
	}
	server, other := api.issue(t, "kube-apiserver", x509.ExtKeyUsageClientAuth), api.issue(t, "node-1", x509.ExtKeyUsageClientAuth)
	if code, err := do("POST", "/validate/fail"); code != http.StatusUnauthorized {
		t.Errorf("without a certificate: %d, %v", code, err)
	}
	for range 3 { // far more than the rate, which applies to other clients
		if code, err := do("POST", "/validate/fail", server); code != http.StatusOK {
			t.Errorf("the API server: %d, %v", code, err)
		}
	}
	if code, err := do("POST", "/validate/fail", other); code != http.StatusForbidden {
		t.Errorf("another name: %d, %v", code, err)
	}
	if code, err := do("POST", "/validate/fail", stranger.issue(t, "kube-apiserver", x509.ExtKeyUsageClientAuth)); code == http.StatusOK {
		t.Errorf("another authority: %d, %v", code, err)
	}
	if code, err := do("POST", "/validate/fail", api.issue(t, "kube-apiserver", x509.ExtKeyUsageServerAuth)); code == http.StatusOK {
		t.Errorf("a certificate for servers: %d, %v", code, err)
	}
	if code, err := do("GET", "/health/liveness"); code != http.StatusOK {
		t.Errorf("a probe: %d, %v", code, err)
	}
	trusted = stranger.pool()
	if code, err := do("POST", "/validate/fail", server); code == http.StatusOK {
		t.Errorf("an authority that was taken away: %d, %v", code, err)
	}
	problem = errors.New("the file is gone")
	if code, err := do("POST", "/validate/fail", server); err == nil {
		t.Errorf("authorities that cannot be read: %d", code)
	}
}

// Row S25 of docs/security/threat-model.md: a client cannot resume its session after its authority was removed.
func TestS25NoTickets(t *testing.T) {
	own, api := newAuthority(t), newAuthority(t)
	srv, _ := setup(t, fakeCluster{}, nil)
	srv.Clients = Clients{Authorities: func() (*x509.CertPool, error) { return api.pool(), nil }}
	address := strings.TrimPrefix(listen(t, srv, own.issue(t, "ephor", x509.ExtKeyUsageServerAuth)), "https://")
	config := &tls.Config{
		RootCAs: own.pool(), Certificates: []tls.Certificate{api.issue(t, "kube-apiserver", x509.ExtKeyUsageClientAuth)},
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	}
	for range 2 {
		conn, err := tls.Dial("tcp", address, config)
		if err != nil {
			t.Fatal(err)
		}
		if conn.ConnectionState().DidResume {
			t.Error("the second handshake skipped the authorities")
		}
		// The server sends a ticket with the first answer.
		if _, err := io.WriteString(conn, "GET /health/liveness HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

// Row S24 of docs/security/threat-model.md: TLS 1.3, or 1.2 with forward secrecy and authenticated encryption if a flag
// asks for it.
func TestS24TLS(t *testing.T) {
	own := newAuthority(t)
	for _, c := range []struct {
		minVersion uint16
		max        uint16
		suites     []uint16
		want       bool
	}{
		{0, tls.VersionTLS13, nil, true}, {0, tls.VersionTLS12, nil, false},
		{tls.VersionTLS12, tls.VersionTLS12, nil, true}, {tls.VersionTLS12, tls.VersionTLS11, nil, false},
		{tls.VersionTLS12, tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}, false},
		{tls.VersionTLS12, tls.VersionTLS12, []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}, false},
		{tls.VersionTLS12, tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305}, true},
	} {
		srv, _ := setup(t, fakeCluster{}, nil)
		srv.Clients.MinVersion = c.minVersion
		url := listen(t, srv, own.issue(t, "ephor", x509.ExtKeyUsageServerAuth))
		conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{
			RootCAs: own.pool(), MinVersion: tls.VersionTLS10, MaxVersion: c.max, CipherSuites: c.suites, //nolint:gosec // weak versions are offered on purpose
		})
		if (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

// Row S25 of docs/security/threat-model.md: one source cannot use all of the server's time. Without the option, no client is limited.
func TestS25RateOfOneSource(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	code := func(from string) int {
		r := newReview(configMap(team))
		r.RemoteAddr = from
		w := newRecorder()
		srv.ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
			t.Error("the answer does not say when to retry")
		}
		return w.Code
	}
	for range 200 {
		if c := code("10.0.0.1:1000"); c != 200 {
			t.Fatalf("limited by default: %d", c)
		}
	}
	srv.gate.QPS, srv.gate.Burst = 0.001, 2
	for i, c := range []struct {
		from string
		want int
	}{
		{"10.0.0.1:1000", 200}, {"10.0.0.1:1001", 200}, {"10.0.0.1:1002", 429}, {"10.0.0.2:1000", 200}, {"[::ffff:10.0.0.1]:1", 429},
		{"[2001:db8::1]:1", 200}, {"[2001:db8::2]:1", 200}, {"[2001:db8::3]:1", 429}, {"[2001:db8:0:1::1]:1", 200},
	} {
		if got := code(c.from); got != c.want {
			t.Errorf("%d, %s: %d, want %d", i, c.from, got, c.want)
		}
	}
}

// The number of remembered sources is bounded.
func TestSourcesAreBounded(t *testing.T) {
	var l limiter
	for i := range maxSources + 100 {
		l.allow(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1).String(), 1, 10)
	}
	if len(l.sources) > maxSources+1 {
		t.Errorf("%d sources", len(l.sources))
	}
	if l.allow("nonsense", 0.001, 1); len(l.sources) > maxSources+1 {
		t.Error("an invalid address has a bucket of its own")
	}
}

// Large reviews share a bounded part of the memory; small ones do not wait for them.
func TestLargeReviewsShareMemory(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	large := configMap(`,"annotations":{"a":"` + strings.Repeat("x", 2*smallBody) + `"}`)
	post := func(body []byte, known bool) int {
		r := newReview(body)
		if !known {
			r.ContentLength = -1
		}
		w := newRecorder()
		srv.ServeHTTP(w, r)
		return w.Code
	}
	for _, known := range []bool{true, false} {
		if code := post(large, known); code != 200 {
			t.Fatalf("%d", code)
		}
	}
	if !srv.large.TryAcquire(largeBodies) {
		t.Fatal("a review that was answered still holds its memory")
	}
	srv.Timeout = 200 * time.Millisecond // these wait for the whole timeout
	for _, known := range []bool{true, false} {
		if code := post(large, known); code != http.StatusTooManyRequests {
			t.Errorf("%d while others take all", code)
		}
	}
	srv.Timeout = time.Minute
	if code := post(configMap(team), true); code != 200 {
		t.Errorf("a small review: %d", code)
	}
}

// T24: the large reviews of one namespace, which may wait for a registry, leave room for those of others.
func TestT24LargeReviewsOfANamespace(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	body := configMap(`,"annotations":{"a":"` + strings.Repeat("x", 2*smallBody) + `"}`)
	post := func() int {
		w := newRecorder()
		srv.ServeHTTP(w, newReview(body))
		return w.Code
	}
	release, err := srv.evaluated.hold(namespaceOf(t, body), largeBodiesOfOne-len(body)+1)
	if err != nil {
		t.Fatal(err)
	}
	if code := post(); code != http.StatusTooManyRequests {
		t.Errorf("%d while reviews of the namespace take its part", code)
	}
	release()
	other, err := srv.evaluated.hold("another", largeBodiesOfOne)
	if err != nil {
		t.Fatal(err)
	}
	if code := post(); code != http.StatusOK {
		t.Errorf("%d while reviews of another namespace take its part", code)
	}
	other()
	if len(srv.evaluated.held) > 0 || !srv.large.TryAcquire(largeBodies) {
		t.Errorf("reviews that were answered still hold memory: %v", srv.evaluated.held)
	}
}

// namespaceOf returns the namespace of a review.
func namespaceOf(t *testing.T, body []byte) string {
	t.Helper()
	req, err := decodeReview(string(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return req.Namespace
}

// newReview returns a request with the body, newRecorder a recorder of the answer.
func newReview(body []byte) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/validate/fail", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }
