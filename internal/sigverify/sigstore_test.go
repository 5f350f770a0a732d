package sigverify_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"

	ct "github.com/google/certificate-transparency-go"
	"github.com/google/certificate-transparency-go/tls"
	ctx509 "github.com/google/certificate-transparency-go/x509"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"

	"ephor.invalid/ephor/internal/world"
)

// services are a certificate authority, its certificate log, a transparency log and a timestamp authority.
type services struct {
	*ca.VirtualSigstore // the transparency log and the timestamp authority
	t                   testing.TB
	root                *x509.Certificate
	rootKey, ctKey      *ecdsa.PrivateKey
	next                int64
	indexes             int64
}

func newServices(t testing.TB) *services {
	t.Helper()
	virtual, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	s := &services{VirtualSigstore: virtual, t: t, rootKey: newKey(elliptic.P256()), ctKey: newKey(elliptic.P256())}
	s.root = s.make(&x509.Certificate{
		Subject: pkix.Name{CommonName: "root"}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, &s.rootKey.PublicKey)
	return s
}

func (s *services) make(template, parent *x509.Certificate, key crypto.PublicKey) *x509.Certificate {
	s.t.Helper()
	if template.SerialNumber == nil {
		s.next++
		template.SerialNumber = big.NewInt(s.next)
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, s.rootKey)
	if err != nil {
		s.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		s.t.Fatal(err)
	}
	return cert
}

// FulcioCertificateAuthorities replaces those of the virtual services, whose certificates are not in a log.
func (s *services) FulcioCertificateAuthorities() []root.CertificateAuthority {
	return []root.CertificateAuthority{&root.FulcioCertificateAuthority{Root: s.root}}
}

// CTLogs implements root.TrustedMaterial.
func (s *services) CTLogs() map[string]*root.TransparencyLog {
	id := keyID(&s.ctKey.PublicKey)
	return map[string]*root.TransparencyLog{hex.EncodeToString(id[:]): {ID: id[:], ValidityPeriodStart: time.Now().Add(-48 * time.Hour), PublicKey: &s.ctKey.PublicKey}}
}

func keyID(key crypto.PublicKey) [32]byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err)
	}
	return sha256.Sum256(der)
}

// person is a signer: a certificate and its key.
type person struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func extensionText(n int, value string) pkix.Extension {
	return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, n}, Value: []byte(value)}
}

func extensionDER(n int, value string) pkix.Extension {
	der, err := asn1.MarshalWithParams(value, "utf8")
	if err != nil {
		panic(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, n}, Value: der}
}

const workflow = "https://github.com/team/app/.github/workflows/release.yaml@refs/tags/v1"

// person returns a signer with a certificate that is valid for ten minutes. Without changes, the certificate names a workflow, and its
// issuer in both extensions.
func (s *services) person(change ...func(*x509.Certificate)) person {
	s.t.Helper()
	uri, _ := url.Parse(workflow)
	template := &x509.Certificate{
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(10 * time.Minute), URIs: []*url.URL{uri},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{extensionText(1, "https://issuer.example"), extensionDER(8, "https://issuer.example"), extensionDER(12, "https://github.com/team/app")},
	}
	for _, f := range change {
		f(template)
	}
	p := person{key: newKey(elliptic.P256())}
	p.cert = s.make(template, s.root, &p.key.PublicKey)
	if template.DNSNames == nil || template.DNSNames[0] != "unlogged.example" {
		template.ExtraExtensions = append(template.ExtraExtensions, s.sct(p.cert, s.ctKey))
		p.cert = s.make(template, s.root, &p.key.PublicKey)
	}
	return p
}

// sct returns the extension with which a certificate log promises that it contains the certificate.
func (s *services) sct(cert *x509.Certificate, log *ecdsa.PrivateKey) pkix.Extension {
	s.t.Helper()
	out := ct.SignedCertificateTimestamp{SCTVersion: ct.V1, LogID: ct.LogID{KeyID: keyID(&log.PublicKey)}, Timestamp: uint64(cert.NotBefore.UnixMilli())}
	input, err := ct.SerializeSCTSignatureInput(out, ct.LogEntry{Leaf: ct.MerkleTreeLeaf{Version: ct.V1, LeafType: ct.TimestampedEntryLeafType, TimestampedEntry: &ct.TimestampedEntry{
		Timestamp: out.Timestamp, EntryType: ct.PrecertLogEntryType, PrecertEntry: &ct.PreCert{IssuerKeyHash: sha256.Sum256(s.root.RawSubjectPublicKeyInfo), TBSCertificate: cert.RawTBSCertificate},
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
	signed, err := tls.CreateSignature(*log, tls.SHA256, input)
	if err != nil {
		s.t.Fatal(err)
	}
	out.Signature = ct.DigitallySigned(signed)
	one, err := tls.Marshal(out)
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := tls.Marshal(ctx509.SignedCertificateTimestampList{SCTList: []ctx509.SerializedSCT{{Val: one}}})
	if err != nil {
		s.t.Fatal(err)
	}
	value, err := asn1.Marshal(list)
	if err != nil {
		s.t.Fatal(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: value}
}

func certPEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// logEntry is a log entry for a signature: its body, and the log's signature.
type logEntry struct {
	body []byte
	at   time.Time
	set  []byte
	id   string
	n    int64
}

func (s *services) log(body any, at time.Time) logEntry {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	id, err := s.RekorLogID()
	if err != nil {
		s.t.Fatal(err)
	}
	s.indexes++
	e := logEntry{body: text, at: at, id: id, n: s.indexes}
	e.set, err = s.RekorSignPayload(tlog.RekorPayload{Body: base64.StdEncoding.EncodeToString(text), IntegratedTime: at.Unix(), LogIndex: e.n, LogID: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

type object = map[string]any

// hashed returns the body of an entry for a signature over a payload. verifier is a key or a certificate in PEM.
func hashed(payload, sig []byte, verifier string) object {
	sum := sha256.Sum256(payload)
	return object{"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": object{
		"data":      object{"hash": object{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])}},
		"signature": object{"content": sig, "publicKey": object{"content": []byte(verifier)}},
	}}
}

// enveloped returns the body of an entry for an envelope.
func enveloped(text []byte, verifier string) object {
	var e dsse.Envelope
	_ = json.Unmarshal(text, &e)
	payload, _ := base64.StdEncoding.DecodeString(e.Payload)
	whole, inner := sha256.Sum256(text), sha256.Sum256(payload)
	return object{"apiVersion": "0.0.1", "kind": "dsse", "spec": object{
		"envelopeHash": object{"algorithm": "sha256", "value": hex.EncodeToString(whole[:])},
		"payloadHash":  object{"algorithm": "sha256", "value": hex.EncodeToString(inner[:])},
		"signatures":   []object{{"signature": e.Signatures[0].Sig, "verifier": []byte(verifier)}},
	}}
}

// oldEnveloped returns the body of an entry of the kind intoto 0.0.1.
func oldEnveloped(text []byte, verifier string) object {
	whole := sha256.Sum256(text)
	return object{"apiVersion": "0.0.1", "kind": "intoto", "spec": object{
		"content": object{"hash": object{"algorithm": "sha256", "value": hex.EncodeToString(whole[:])}}, "publicKey": []byte(verifier),
	}}
}

// cosignBundle returns the entry in cosign's form.
func (e logEntry) cosignBundle() string {
	text, _ := json.Marshal(object{"SignedEntryTimestamp": e.set, "Payload": object{
		"body": e.body, "integratedTime": e.at.Unix(), "logIndex": e.n, "logID": e.id,
	}})
	return string(text)
}

// signedBy returns a layer of the tag .sig signed by a person and logged at a time. The zero time means that there is no entry.
func (s *services) signedBy(p person, payload []byte, at time.Time) layer {
	l := signed(p.key, crypto.SHA256, payload)
	l.annotations["dev.sigstore.cosign/certificate"] = certPEM(p.cert)
	l.annotations["dev.sigstore.cosign/chain"] = certPEM(s.root)
	if !at.IsZero() {
		sig, _ := base64.StdEncoding.DecodeString(l.annotations["dev.cosignproject.cosign/signature"])
		l.annotations["dev.sigstore.cosign/bundle"] = s.log(hashed(payload, sig, certPEM(p.cert)), at).cosignBundle()
	}
	return l
}

// bundleBy returns a bundle of version 0.3 signed by a person.
func (s *services) bundleBy(p person, statement []byte, at time.Time, change ...func(object)) layer {
	s.t.Helper()
	text := envelope(p.key, statement)
	var e object
	_ = json.Unmarshal(text, &e)
	material := object{"certificate": object{"rawBytes": p.cert.Raw}}
	if !at.IsZero() {
		logged := s.log(enveloped(text, certPEM(p.cert)), at)
		proof, err := s.GetInclusionProof(logged.body)
		if err != nil {
			s.t.Fatal(err)
		}
		id, _ := hex.DecodeString(logged.id)
		hash, _ := hex.DecodeString(*proof.RootHash)
		material["tlogEntries"] = []object{{
			"logIndex": logged.n, "logId": object{"keyId": id}, "kindVersion": object{"kind": "dsse", "version": "0.0.1"}, "integratedTime": logged.at.Unix(),
			"inclusionPromise": object{"signedEntryTimestamp": logged.set}, "canonicalizedBody": logged.body,
			"inclusionProof": object{"logIndex": *proof.LogIndex, "rootHash": hash, "treeSize": *proof.TreeSize, "checkpoint": object{"envelope": *proof.Checkpoint}},
		}}
	}
	b := object{"mediaType": kindBundle, "verificationMaterial": material, "dsseEnvelope": e}
	for _, f := range change {
		f(b)
	}
	out, err := json.Marshal(b)
	if err != nil {
		s.t.Fatal(err)
	}
	return layer{out, kindBundle, nil}
}

// stamped adds a timestamp to a bundle.
func (s *services) stamped(b object) {
	e := b["dsseEnvelope"].(object)
	sig, _ := base64.StdEncoding.DecodeString(e["signatures"].([]any)[0].(object)["sig"].(string))
	stamp, err := s.TimestampResponse(sig)
	if err != nil {
		s.t.Fatal(err)
	}
	b["verificationMaterial"].(object)["timestampVerificationData"] = object{"rfc3161Timestamps": []object{{"signedTimestamp": stamp}}}
}

// byName returns an attestor with an identity.
func byName(issuer, subject string) *world.Attestor {
	return &world.Attestor{Keyless: &world.KeylessAttestor{Issuer: issuer, Subject: subject}}
}
