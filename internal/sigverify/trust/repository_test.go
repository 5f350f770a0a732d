package trust

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// repository is an update repository that the test publishes and breaks.
type repository struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	files    map[string][]byte
	requests int
	answer   func(w http.ResponseWriter, r *http.Request) bool // answers in place of a broken repository

	signers                              map[string]ed25519.PrivateKey
	root, timestamp, snapshot, revisions int64
	expires                              time.Time
	first                                []byte
}

func newRepository(t *testing.T, expires time.Time) *repository {
	r := &repository{t: t, files: map[string][]byte{}, signers: map[string]ed25519.PrivateKey{}, expires: expires}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.requests++
		text, ok := r.files[strings.TrimPrefix(q.URL.Path, "/")]
		answer := r.answer
		r.mu.Unlock()
		switch {
		case answer != nil && answer(w, q):
		case !ok:
			http.NotFound(w, q)
		default:
			_, _ = w.Write(text)
		}
	}))
	t.Cleanup(r.server.Close)
	for _, role := range []string{metadata.ROOT, metadata.TIMESTAMP, metadata.SNAPSHOT, metadata.TARGETS} {
		r.rotate(role)
	}
	r.first = r.publishRoot()
	return r
}

// rotate gives a role a new key.
func (r *repository) rotate(role string) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	r.must(err)
	r.signers[role] = key
}

func (r *repository) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *repository) signer(key ed25519.PrivateKey) signature.Signer {
	s, err := signature.LoadSigner(key, crypto.Hash(0))
	r.must(err)
	return s
}

// publishRoot writes the next version of the root, which is also signed by the previous root key.
func (r *repository) publishRoot(before ...ed25519.PrivateKey) []byte {
	r.root++
	m := metadata.Root(r.expires.Add(365 * 24 * time.Hour))
	m.Signed.Version = r.root
	for role, key := range r.signers {
		public, err := metadata.KeyFromPublicKey(key.Public())
		r.must(err)
		r.must(m.Signed.AddKey(public, role))
	}
	for i, key := range append(before, r.signers[metadata.ROOT]) {
		if i < len(before) && key.Equal(r.signers[metadata.ROOT]) {
			continue
		}
		_, err := m.Sign(r.signer(key))
		r.must(err)
	}
	text, err := m.ToBytes(false)
	r.must(err)
	r.put(fmt.Sprintf("%d.root.json", r.root), text)
	return text
}

func (r *repository) put(name string, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[name] = text
}

func (r *repository) broken(answer func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *repository) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// target is a file and its usage.
type target struct {
	text  []byte
	usage string
}

// publish writes the targets and all metadata except the root, each in its next version.
func (r *repository) publish(files map[string]target) {
	r.timestamp++
	r.snapshot++
	r.revisions++
	targets := metadata.Targets(r.expires)
	targets.Signed.Version = r.revisions
	for name, f := range files {
		info, err := metadata.TargetFile().FromBytes(name, f.text, "sha256")
		r.must(err)
		if f.usage != "" {
			custom := json.RawMessage(fmt.Sprintf(`{"sigstore":{"status":"Active","usage":%q}}`, f.usage))
			info.Custom = &custom
		}
		targets.Signed.Targets[name] = info
		sum := sha256.Sum256(f.text)
		r.put("targets/"+hex.EncodeToString(sum[:])+"."+name, f.text)
	}
	snapshot := metadata.Snapshot(r.expires)
	snapshot.Signed.Version = r.snapshot
	snapshot.Signed.Meta["targets.json"] = metadata.MetaFile(r.revisions)
	timestamp := metadata.Timestamp(r.expires)
	timestamp.Signed.Version = r.timestamp
	timestamp.Signed.Meta["snapshot.json"] = metadata.MetaFile(r.snapshot)

	_, err := targets.Sign(r.signer(r.signers[metadata.TARGETS]))
	r.must(err)
	_, err = snapshot.Sign(r.signer(r.signers[metadata.SNAPSHOT]))
	r.must(err)
	_, err = timestamp.Sign(r.signer(r.signers[metadata.TIMESTAMP]))
	r.must(err)
	for name, m := range map[string]interface{ ToBytes(bool) ([]byte, error) }{
		fmt.Sprintf("%d.targets.json", r.revisions): targets, fmt.Sprintf("%d.snapshot.json", r.snapshot): snapshot, "timestamp.json": timestamp,
	} {
		text, err := m.ToBytes(false)
		r.must(err)
		r.put(name, text)
	}
}

// publishTrusted publishes a trusted root whose only log has the base URL.
func (r *repository) publishTrusted(url string) {
	r.publish(map[string]target{trustedRootTarget: {text: trustedRoot(r.t, url)}})
}

// trustedRoot returns a trusted root with one log.
func trustedRoot(t *testing.T, url string) []byte {
	t.Helper()
	der := logKey(t)
	id := sha256.Sum256(der)
	return fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1","tlogs":[{"baseUrl":%q,"hashAlgorithm":"SHA2_256",
		"publicKey":{"rawBytes":%q,"keyDetails":"PKIX_ECDSA_P256_SHA_256","validFor":{"start":"2021-01-12T11:53:27Z"}},"logId":{"keyId":%q}}]}`,
		url, base64.StdEncoding.EncodeToString(der), base64.StdEncoding.EncodeToString(id[:]))
}

func logKey(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// authority returns a certificate that the parent signed. Without a parent it is self-signed.
func authority(t *testing.T, name string, ca bool, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: ca, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

// network counts connections.
type network struct {
	mu    sync.Mutex
	dials []string
}

func (n *network) transport() *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, kind, address string) (net.Conn, error) {
		n.mu.Lock()
		n.dials = append(n.dials, address)
		n.mu.Unlock()
		return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, kind, address)
	}}
}

func (n *network) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.dials)
}
