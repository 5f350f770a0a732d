package notary

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/digitorus/timestamp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/notaryproject/notation-core-go/signature"
	"github.com/notaryproject/tspclient-go"
	"golang.org/x/crypto/ocsp"

	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/world"
)

// holder is a certificate with its key and the certificates above it.
type holder struct {
	*x509.Certificate
	key   crypto.Signer
	above *holder
}

var serial atomic.Int64

// issue returns a certificate signed by an issuer, or a self-signed one.
func issue(t testing.TB, above *holder, change func(*x509.Certificate)) *holder {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issueFor(t, above, key, change)
}

func issueFor(t testing.TB, above *holder, key crypto.Signer, change func(*x509.Certificate)) *holder {
	t.Helper()
	n := serial.Add(1)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(n), Subject: pkix.Name{Country: []string{"US"}, Province: []string{"WA"}, Organization: []string{"Test"}, CommonName: fmt.Sprintf("test %d", n)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	change(template)
	parent, signer := template, key
	if above != nil {
		parent, signer = above.Certificate, above.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &holder{c, key, above}
}

func ca(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	c.NotBefore, c.NotAfter = time.Now().Add(-1000*time.Hour), time.Now().Add(1000*time.Hour)
}

func leaf(c *x509.Certificate) {
	c.KeyUsage, c.ExtKeyUsage, c.BasicConstraintsValid = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, true
}

func expired(c *x509.Certificate) {
	leaf(c)
	c.NotBefore, c.NotAfter = time.Now().Add(-100*time.Hour), time.Now().Add(-50*time.Hour)
}

func (h *holder) chain() (out []*x509.Certificate) {
	for ; h != nil; h = h.above {
		out = append(out, h.Certificate)
	}
	return out
}

func (h *holder) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Raw}))
}

// stamper is a timestamping authority at a fixed time.
type stamper struct {
	*holder
	at time.Time
}

func newStamper(t testing.TB, root *holder, at time.Time) stamper {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return stamper{issueFor(t, root, key, func(c *x509.Certificate) {
		c.KeyUsage, c.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
		use, _ := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: use}}
		c.NotBefore, c.NotAfter = time.Now().Add(-500*time.Hour), time.Now().Add(500*time.Hour)
	}), at}
}

// Timestamp implements tspclient.Timestamper.
func (s stamper) Timestamp(_ context.Context, r *tspclient.Request) (*tspclient.Response, error) {
	hash := map[int]crypto.Hash{32: crypto.SHA256, 48: crypto.SHA384, 64: crypto.SHA512}[len(r.MessageImprint.HashedMessage)]
	stamp := timestamp.Timestamp{
		HashAlgorithm: hash, HashedMessage: r.MessageImprint.HashedMessage, Time: s.at, Nonce: r.Nonce,
		Policy: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 4146, 2, 3}, Accuracy: time.Second, AddTSACertificate: true, Certificates: s.above.chain(),
	}
	der, err := stamp.CreateResponseWithOpts(s.Certificate, s.key, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	out := &tspclient.Response{}
	return out, out.UnmarshalBinary(der)
}

var subject = v1.Descriptor{
	MediaType: "application/vnd.oci.image.manifest.v1+json", Size: 1234,
	Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("ab", 32)},
}

func payload(d v1.Descriptor) []byte {
	text, _ := json.Marshal(map[string]any{"targetArtifact": map[string]any{"mediaType": d.MediaType, "digest": d.Digest.String(), "size": d.Size}})
	return text
}

// sign returns an envelope.
func sign(t testing.TB, mediaType string, by *holder, change func(*signature.SignRequest)) []byte {
	t.Helper()
	signer, err := signature.NewLocalSigner(by.chain(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	request := &signature.SignRequest{
		Payload: signature.Payload{ContentType: "application/vnd.cncf.notary.payload.v1+json", Content: payload(subject)},
		Signer:  signer, SigningTime: by.NotBefore.Add(time.Minute), SigningScheme: signature.SigningSchemeX509, SigningAgent: "test",
	}
	if change != nil {
		change(request)
	}
	envelope, err := signature.NewEnvelope(mediaType)
	if err != nil {
		t.Fatal(err)
	}
	out, err := envelope.Sign(request)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func stamped(by stamper) func(*signature.SignRequest) {
	return func(r *signature.SignRequest) {
		r.Timestamper, r.TSARootCAs = by, x509.NewCertPool()
		chain := by.chain()
		r.TSARootCAs.AddCert(chain[len(chain)-1])
	}
}

func artefact(mediaType string, envelope []byte) sigverify.NotaryArtefact {
	return sigverify.NotaryArtefact{Repository: "registry.example.com:5000/team/app", Subject: subject, MediaType: mediaType, Envelope: envelope}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// offline returns a transport that fails the test if a request is sent.
func offline(t testing.TB) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		t.Errorf("a request to %s", r.URL)
		return nil, errors.New("unexpected")
	})
}

func newVerifier(t testing.TB, o Options) *Verifier {
	t.Helper()
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// satisfies checks the result of a verification: "" for a valid signature, "error: …" if it could not be determined.
func satisfies(t *testing.T, err error, want string) {
	t.Helper()
	var unverified *world.UnverifiedError
	isError := err != nil && !errors.As(err, &unverified)
	want, wantError := strings.CutPrefix(want, "error: ")
	switch {
	case want == "" && err != nil:
		t.Errorf("%v, want a valid signature", err)
	case want != "" && err == nil:
		t.Errorf("the signature is valid, want %q", want)
	case err != nil && (!strings.Contains(err.Error(), want) || isError != wantError):
		t.Errorf("%T %v, want %q (error: %t)", err, err, want, wantError)
	}
}

func TestSignature(t *testing.T) {
	root := issue(t, nil, ca)
	between := issue(t, root, ca)
	signer := issue(t, between, leaf)
	other := issue(t, nil, ca)
	self := issue(t, nil, leaf)
	old := issue(t, root, expired)
	future := issue(t, root, func(c *x509.Certificate) {
		leaf(c)
		c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	})
	tsaRoot, otherTSA := issue(t, nil, ca), issue(t, nil, ca)
	tsa := newStamper(t, tsaRoot, old.NotAfter.Add(-time.Hour))
	late := tsa
	late.at = old.NotAfter.Add(time.Hour)
	now := tsa
	now.at = time.Now()
	moved := subject
	moved.Digest.Hex = strings.Repeat("cd", 32)
	resized := subject
	resized.Size++
	flipped := func(mediaType string) []byte {
		text := sign(t, mediaType, signer, nil)
		if mediaType == mediaTypeCOSE {
			at := bytes.Index(text, []byte(subject.Digest.Hex))
			text[at] ^= 1
			return text
		}
		var in map[string]json.RawMessage
		_ = json.Unmarshal(text, &in)
		in["payload"], _ = json.Marshal(base64.RawURLEncoding.EncodeToString(payload(moved)))
		text, _ = json.Marshal(in)
		return text
	}
	for _, mediaType := range []string{mediaTypeJWS, mediaTypeCOSE} {
		for name, c := range map[string]struct {
			envelope    []byte
			cert, chain string
			tsa         string
			want        string
		}{
			"root":                 {sign(t, mediaType, signer, nil), root.pem(), "", "", ""},
			"intermediate":         {sign(t, mediaType, signer, nil), between.pem(), "", "", ""},
			"leaf":                 {sign(t, mediaType, signer, nil), signer.pem(), "", "", ""},
			"chain":                {sign(t, mediaType, signer, nil), "", between.pem() + root.pem(), "", ""},
			"signer and its chain": {sign(t, mediaType, signer, nil), signer.pem(), between.pem() + root.pem(), "", ""},
			"T26: signer and its chain, signed by another below it": {sign(t, mediaType, issue(t, between, leaf), nil), signer.pem(), between.pem() + root.pem(), "",
				"the signature's certificate chain does not contain any trusted certificate"},
			"one of several":             {sign(t, mediaType, signer, nil), other.pem() + root.pem(), "", "", ""},
			"base64 of PEM":              {sign(t, mediaType, signer, nil), base64.StdEncoding.EncodeToString([]byte(root.pem())), "", "", ""},
			"self-signed":                {sign(t, mediaType, self, nil), self.pem(), "", "", ""},
			"another self-signed":        {sign(t, mediaType, self, nil), signer.pem(), "", "", "the signature's certificate chain does not contain any trusted certificate"},
			"wrong root":                 {sign(t, mediaType, signer, nil), other.pem(), "", "", "the signature's certificate chain does not contain any trusted certificate"},
			"changed payload":            {flipped(mediaType), root.pem(), "", "", "signature is invalid"},
			"another artefact":           {sign(t, mediaType, signer, func(r *signature.SignRequest) { r.Payload.Content = payload(moved) }), root.pem(), "", "", "content descriptor mismatch"},
			"another size":               {sign(t, mediaType, signer, func(r *signature.SignRequest) { r.Payload.Content = payload(resized) }), root.pem(), "", "", "content descriptor mismatch"},
			"no artefact":                {sign(t, mediaType, signer, func(r *signature.SignRequest) { r.Payload.Content = []byte("{}") }), root.pem(), "", "", "content descriptor mismatch"},
			"unknown payload":            {sign(t, mediaType, signer, func(r *signature.SignRequest) { r.Payload.ContentType = "text/x" }), root.pem(), "", "", `payload content type "text/x" not supported`},
			"signature not yet expired":  {sign(t, mediaType, signer, func(r *signature.SignRequest) { r.Expiry = time.Now().Add(time.Hour) }), root.pem(), "", "", ""},
			"expired signature":          {sign(t, mediaType, signer, func(r *signature.SignRequest) { r.Expiry = time.Now().Add(-time.Minute) }), root.pem(), "", "", "digital signature has expired on"},
			"expired certificate":        {sign(t, mediaType, old, nil), root.pem(), "", "", "verification time is after certificate"},
			"certificate not yet valid":  {sign(t, mediaType, future, nil), root.pem(), "", "", "verification time is before certificate"},
			"expired, stamped":           {sign(t, mediaType, old, stamped(tsa)), root.pem(), "", tsaRoot.pem(), ""},
			"expired, stamp not wanted":  {sign(t, mediaType, old, stamped(tsa)), root.pem(), "", "", "verification time is after certificate"},
			"expired, not stamped":       {sign(t, mediaType, old, nil), root.pem(), "", tsaRoot.pem(), "no timestamp countersignature was found"},
			"expired, stamped too late":  {sign(t, mediaType, old, stamped(late)), root.pem(), "", tsaRoot.pem(), "timestamp can be after certificate"},
			"expired, stamped by others": {sign(t, mediaType, old, stamped(tsa)), root.pem(), "", otherTSA.pem(), "failed to verify the timestamp countersignature"},
			"stamped":                    {sign(t, mediaType, signer, stamped(now)), root.pem(), "", otherTSA.pem() + tsaRoot.pem(), ""},
			"signing authority": {sign(t, mediaType, signer, func(r *signature.SignRequest) { r.SigningScheme = signature.SigningSchemeX509SigningAuthority }),
				root.pem(), "", "", "no trusted certificates are found to verify authenticity"},
			"plugin": {sign(t, mediaType, signer, func(r *signature.SignRequest) {
				r.ExtendedSignedAttributes = []signature.Attribute{{Key: "io.cncf.notary.verificationPlugin", Critical: true, Value: "x"}}
			}), root.pem(), "", "", "plugin unsupported"},
			"critical attribute": {sign(t, mediaType, signer, func(r *signature.SignRequest) {
				r.ExtendedSignedAttributes = []signature.Attribute{{Key: "team.attribute", Critical: true, Value: "x"}}
			}), root.pem(), "", "", "the critical attribute team.attribute of the signature is unknown"},
			"attribute": {sign(t, mediaType, signer, func(r *signature.SignRequest) {
				r.ExtendedSignedAttributes = []signature.Attribute{{Key: "team.attribute", Value: "x"}}
			}), root.pem(), "", "", ""},
			"empty":              {nil, root.pem(), "", "", "unable to parse the digital signature"},
			"garbage":            {[]byte("garbage"), root.pem(), "", "", "unable to parse the digital signature"},
			"too long":           {make([]byte, maxEnvelope+1), root.pem(), "", "", fmt.Sprintf("payload size %d exceeds %d for digest sha256:", maxEnvelope+1, maxEnvelope)},
			"no certificates":    {sign(t, mediaType, signer, nil), "", "", "", "error: failed to parse certificates: there are none"},
			"no PEM":             {sign(t, mediaType, signer, nil), "x", "", "", "error: failed to parse certificates: PEM decoding failed"},
			"garbage behind PEM": {sign(t, mediaType, signer, nil), root.pem() + "x", "", "", "error: failed to parse certificates: PEM decoding failed"},
			"a key":              {sign(t, mediaType, signer, nil), "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "", "", `error: failed to parse certificates: a block of type "PUBLIC KEY" is not a certificate`},
			"no certificate":     {sign(t, mediaType, signer, nil), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "", "", "error: failed to parse certificates: x509"},
			"12 certificates":    {sign(t, mediaType, signer, nil), "", strings.Repeat(root.pem(), 12), "", "error: failed to parse certificates: certificate chain too long (12), maximum allowed is 11"},
			"13 TSA":             {sign(t, mediaType, signer, nil), root.pem(), "", strings.Repeat(tsaRoot.pem(), 13), "error: failed to parse certificates: TSA certificate chain contains too many certificates (13), maximum allowed is 12"},
		} {
			t.Run(mediaType+"/"+name, func(t *testing.T) {
				v := newVerifier(t, Options{HTTP: offline(t)})
				err := v.Signature(t.Context(), artefact(mediaType, c.envelope), world.CertificateAttestor{Certificate: c.cert, Chain: c.chain}, c.tsa)
				satisfies(t, err, c.want)
			})
		}
	}
}

func TestEnvelopesOfAnotherType(t *testing.T) {
	root := issue(t, nil, ca)
	signer := issue(t, root, leaf)
	v := newVerifier(t, Options{HTTP: offline(t)})
	jws := sign(t, mediaTypeJWS, signer, nil)
	certs := world.CertificateAttestor{Certificate: root.pem()}
	satisfies(t, v.Signature(t.Context(), artefact("text/plain", jws), certs, ""), `media type "text/plain" is not supported`)
	satisfies(t, v.Signature(t.Context(), artefact("", jws), certs, ""), "is not supported")
	satisfies(t, v.Signature(t.Context(), artefact(mediaTypeCOSE, jws), certs, ""), "unable to parse the digital signature")
}

func TestAnEnvelopeWithManyCertificates(t *testing.T) {
	above := issue(t, nil, ca)
	root := above
	for range 11 {
		above = issue(t, above, ca)
	}
	signer := issue(t, above, leaf)
	v := newVerifier(t, Options{HTTP: offline(t)})
	for _, mediaType := range []string{mediaTypeJWS, mediaTypeCOSE} {
		err := v.Signature(t.Context(), artefact(mediaType, sign(t, mediaType, signer, nil)), world.CertificateAttestor{Certificate: root.pem()}, "")
		satisfies(t, err, "certificate chain too long (13), maximum allowed is 11")
	}
}

// responder answers revocation queries.
type responder struct {
	mu      sync.Mutex
	answers map[string]func() ([]byte, error) // by the prefix of the path
	asked   map[string]int
}

func (r *responder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for prefix, answer := range r.answers {
		if !strings.HasPrefix(req.URL.Path, prefix) {
			continue
		}
		if r.asked == nil {
			r.asked = map[string]int{}
		}
		r.asked[prefix]++
		text, err := answer()
		if err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(text)), Request: req}, nil
	}
	return nil, fmt.Errorf("nothing answers at %s", req.URL)
}

func (r *responder) set(prefix string, f func() ([]byte, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil {
		r.answers = map[string]func() ([]byte, error){}
	}
	r.answers[prefix] = f
}

func (r *responder) count(prefix string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[prefix]
}

// says returns a function that answers OCSP requests for a certificate.
func says(about *holder, status int, by *holder) func() ([]byte, error) {
	return func() ([]byte, error) {
		return ocsp.CreateResponse(about.above.Certificate, by.Certificate, ocsp.Response{
			Status: status, SerialNumber: about.SerialNumber, ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour), RevokedAt: time.Now().Add(-time.Hour),
		}, by.key)
	}
}

// listOf returns a function that answers with a revocation list.
func listOf(by *holder, next time.Time, revoked ...*holder) func() ([]byte, error) {
	return func() ([]byte, error) {
		list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: next}
		for _, r := range revoked {
			list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: r.SerialNumber, RevocationTime: time.Now().Add(-time.Hour)})
		}
		return x509.CreateRevocationList(rand.Reader, list, by.Certificate, by.key)
	}
}

func asksOCSP(c *x509.Certificate) { leaf(c); c.OCSPServer = []string{"http://ocsp.example.com/ocsp"} }

func asksCRL(c *x509.Certificate) {
	leaf(c)
	c.CRLDistributionPoints = []string{"http://crl.example.com/crl"}
}

func asksBoth(c *x509.Certificate) {
	asksCRL(c)
	c.OCSPServer = []string{"http://ocsp.example.com/ocsp"}
}

func down() ([]byte, error) { return nil, errors.New("connection refused") }

func TestRevocation(t *testing.T) {
	root, other := issue(t, nil, ca), issue(t, nil, ca)
	byOCSP, byCRL, byBoth := issue(t, root, asksOCSP), issue(t, root, asksCRL), issue(t, root, asksBoth)
	revokedCA := issue(t, root, func(c *x509.Certificate) { ca(c); c.OCSPServer = []string{"http://ocsp.example.com/between"} })
	below := issue(t, revokedCA, leaf)
	hour := time.Now().Add(time.Hour)
	long := func() ([]byte, error) { return make([]byte, maxCRL+1), nil }
	for name, c := range map[string]struct {
		signer    *holder
		ocsp, crl func() ([]byte, error)
		want      string
	}{
		"good by OCSP":                 {byOCSP, says(byOCSP, ocsp.Good, root), nil, ""},
		"revoked by OCSP":              {byOCSP, says(byOCSP, ocsp.Revoked, root), nil, "is revoked"},
		"unknown to OCSP":              {byOCSP, says(byOCSP, ocsp.Unknown, root), nil, "revocation status is unknown"},
		"OCSP down":                    {byOCSP, down, nil, "error: revocation status is unknown: error checking revocation status via OCSP"},
		"OCSP answers garbage":         {byOCSP, func() ([]byte, error) { return []byte("x"), nil }, nil, "error: revocation status is unknown"},
		"OCSP of another issuer":       {byOCSP, says(byOCSP, ocsp.Good, other), nil, "error: revocation status is unknown"},
		"good by CRL":                  {byCRL, nil, listOf(root, hour), ""},
		"another one revoked":          {byCRL, nil, listOf(root, hour, byBoth), ""},
		"revoked by CRL":               {byCRL, nil, listOf(root, hour, byCRL), "is revoked"},
		"CRL down":                     {byCRL, nil, down, "error: revocation status is unknown: failed to download CRL"},
		"CRL of another issuer":        {byCRL, nil, listOf(other, hour), "error: revocation status is unknown"},
		"old CRL":                      {byCRL, nil, listOf(root, time.Now().Add(-time.Second)), "error: revocation status is unknown"},
		"CRL too long":                 {byCRL, nil, long, "error: the answer is longer than"},
		"OCSP down, good by CRL":       {byBoth, down, listOf(root, hour), ""},
		"OCSP down, revoked by CRL":    {byBoth, down, listOf(root, hour, byBoth), "is revoked"},
		"both down":                    {byBoth, down, down, "error: revocation status is unknown"},
		"revoked by OCSP, good by CRL": {byBoth, says(byBoth, ocsp.Revoked, root), listOf(root, hour), "is revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &responder{}
			r.set("/ocsp", c.ocsp)
			r.set("/crl", c.crl)
			v := newVerifier(t, Options{HTTP: r})
			err := v.Signature(t.Context(), artefact(mediaTypeJWS, sign(t, mediaTypeJWS, c.signer, nil)), world.CertificateAttestor{Certificate: root.pem()}, "")
			satisfies(t, err, c.want)
			if v := newVerifier(t, Options{HTTP: offline(t), SkipRevocation: true}); c.want != "" {
				satisfies(t, v.Signature(t.Context(), artefact(mediaTypeJWS, sign(t, mediaTypeJWS, c.signer, nil)), world.CertificateAttestor{Certificate: root.pem()}, ""), "")
			}
		})
	}
	t.Run("intermediate", func(t *testing.T) {
		r := &responder{}
		r.set("/between", says(revokedCA, ocsp.Revoked, root))
		err := newVerifier(t, Options{HTTP: r}).Signature(t.Context(), artefact(mediaTypeCOSE, sign(t, mediaTypeCOSE, below, nil)), world.CertificateAttestor{Certificate: root.pem()}, "")
		satisfies(t, err, "is revoked")
	})
	t.Run("stranger", func(t *testing.T) { // no request goes to an address in an untrusted certificate
		v := newVerifier(t, Options{HTTP: offline(t)})
		satisfies(t, v.Signature(t.Context(), artefact(mediaTypeJWS, sign(t, mediaTypeJWS, byOCSP, nil)), world.CertificateAttestor{Certificate: other.pem()}, ""), "does not contain any trusted certificate")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		v := newVerifier(t, Options{HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		err := v.Signature(ctx, artefact(mediaTypeJWS, sign(t, mediaTypeJWS, byOCSP, nil)), world.CertificateAttestor{Certificate: root.pem()}, "")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestRevocationOfTimeStamps(t *testing.T) {
	root, tsaRoot := issue(t, nil, ca), issue(t, nil, ca)
	old := issue(t, root, expired)
	between := issue(t, tsaRoot, func(c *x509.Certificate) { ca(c); c.OCSPServer = []string{"http://ocsp.example.com/tsa"} })
	tsa := newStamper(t, between, old.NotAfter.Add(-time.Hour))
	for want, answer := range map[string]func() ([]byte, error){
		"": says(between, ocsp.Good, tsaRoot), "is revoked": says(between, ocsp.Revoked, tsaRoot), "error: revocation status is unknown": down,
	} {
		r := &responder{}
		r.set("/tsa", answer)
		envelope := sign(t, mediaTypeJWS, old, stamped(tsa))
		err := newVerifier(t, Options{HTTP: r}).Signature(t.Context(), artefact(mediaTypeJWS, envelope), world.CertificateAttestor{Certificate: root.pem()}, tsaRoot.pem())
		satisfies(t, err, want)
	}
}

func TestNamespacedPoliciesAskPermittedResponders(t *testing.T) {
	root := issue(t, nil, ca)
	signer := issue(t, root, asksOCSP)
	r := &responder{}
	r.set("/ocsp", says(signer, ocsp.Good, root))
	v := newVerifier(t, Options{HTTP: r, Permit: func(u *url.URL) error { return fmt.Errorf("%s is not permitted", u.Host) }})
	a := artefact(mediaTypeJWS, sign(t, mediaTypeJWS, signer, nil))
	satisfies(t, v.Signature(t.Context(), a, world.CertificateAttestor{Certificate: root.pem()}, ""), "")
	a.Confined = true
	satisfies(t, v.Signature(t.Context(), a, world.CertificateAttestor{Certificate: root.pem()}, ""), "error: ocsp.example.com is not permitted")
	if n := r.count("/ocsp"); n != 1 {
		t.Errorf("%d questions", n)
	}
}

func TestAnswersAboutRevocationAreRemembered(t *testing.T) {
	root := issue(t, nil, ca)
	for kind, signer := range map[string]*holder{"/ocsp": issue(t, root, asksOCSP), "/crl": issue(t, root, asksCRL)} {
		t.Run(kind, func(t *testing.T) {
			var clock atomic.Int64
			start := time.Now()
			r := &responder{}
			good, bad := says(signer, ocsp.Good, root), says(signer, ocsp.Revoked, root)
			if kind == "/crl" {
				good, bad = listOf(root, start.Add(30*time.Minute)), listOf(root, start.Add(time.Hour), signer)
			}
			v := newVerifier(t, Options{HTTP: r, Now: func() time.Time { return start.Add(time.Duration(clock.Load())) }})
			a := artefact(mediaTypeJWS, sign(t, mediaTypeJWS, signer, nil))
			check := func(at time.Duration, answer func() ([]byte, error), want string, asked int) {
				t.Helper()
				clock.Store(int64(at))
				r.set(kind, answer)
				satisfies(t, v.Signature(t.Context(), a, world.CertificateAttestor{Certificate: root.pem()}, ""), want)
				if n := r.count(kind); n != asked {
					t.Errorf("after %s: %d questions, want %d", at, n, asked)
				}
			}
			check(0, good, "", 1)
			check(fresh-time.Second, down, "", 1)
			check(fresh, down, "", 2) // the last answer is used
			if kind == "/crl" {       // a list is used until its next update
				check(fresh+pause, bad, "", 2)
			} else { // and no request is sent during the pause
				check(fresh+time.Second, down, "", 2)
				check(fresh+pause, good, "", 3) // the responder is back
			}
			n := r.count(kind)
			check(2*fresh+pause, bad, "is revoked", n+1)
			check(3*fresh, down, "is revoked", n+1)
			check(3*fresh+pause, down, "is revoked", n+2)
			check(fresh+2*usable, down, "error: revocation status is unknown", n+3)
		})
	}
}

func TestOneQuestionAboutRevocationAtATime(t *testing.T) {
	root := issue(t, nil, ca)
	signer := issue(t, root, asksOCSP)
	good := says(signer, ocsp.Good, root)
	r := &responder{}
	r.set("/ocsp", func() ([]byte, error) {
		time.Sleep(50 * time.Millisecond)
		return good()
	})
	v := newVerifier(t, Options{HTTP: r})
	a := artefact(mediaTypeJWS, sign(t, mediaTypeJWS, signer, nil))
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			satisfies(t, v.Signature(context.Background(), a, world.CertificateAttestor{Certificate: root.pem()}, ""), "")
		})
	}
	wait.Wait()
	if n := r.count("/ocsp"); n != 1 {
		t.Errorf("%d questions", n)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	root := issue(t, nil, ca)
	v := newVerifier(t, Options{HTTP: offline(t)})
	for i := range maxStores + 20 {
		if _, err := v.stores.get(world.CertificateAttestor{Certificate: root.pem() + strings.Repeat("\n", i)}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(v.stores.known); n > maxStores {
		t.Errorf("%d stores", n)
	}
}

func BenchmarkSignature(b *testing.B) {
	root := issue(b, nil, ca)
	signer := issue(b, root, leaf)
	for _, mediaType := range []string{mediaTypeJWS, mediaTypeCOSE} {
		b.Run(mediaType, func(b *testing.B) {
			v := newVerifier(b, Options{HTTP: offline(b)})
			a, certs := artefact(mediaType, sign(b, mediaType, signer, nil)), world.CertificateAttestor{Certificate: root.pem()}
			b.ReportAllocs()
			for b.Loop() {
				if err := v.Signature(context.Background(), a, certs, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzSignature(f *testing.F) {
	root := issue(f, nil, ca)
	signer := issue(f, root, leaf)
	f.Add(true, sign(f, mediaTypeJWS, signer, nil))
	f.Add(false, sign(f, mediaTypeCOSE, signer, nil))
	v := newVerifier(f, Options{HTTP: roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("offline") })})
	stranger := issue(f, nil, ca)
	f.Fuzz(func(t *testing.T, jws bool, envelope []byte) {
		mediaType := mediaTypeCOSE
		if jws {
			mediaType = mediaTypeJWS
		}
		if err := v.Signature(context.Background(), artefact(mediaType, envelope), world.CertificateAttestor{Certificate: stranger.pem()}, ""); err == nil || strings.Contains(err.Error(), "panic") {
			t.Fatalf("a signature that no trusted certificate made: %v", err)
		}
	})
}

func FuzzCertificates(f *testing.F) {
	f.Add(issue(f, nil, ca).pem())
	f.Add(base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")))
	f.Fuzz(func(t *testing.T, text string) {
		found, err := certificates(text, atMost(3, "too many (%d of %d)"))
		if err == nil && len(found) > 3 {
			t.Errorf("%d certificates", len(found))
		}
	})
}
