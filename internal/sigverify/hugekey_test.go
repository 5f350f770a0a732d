package sigverify_test

import (
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/digitorus/pkcs7"

	"ephor.invalid/ephor/internal/sigverify/notary"
	"ephor.invalid/ephor/internal/sigverify/trust"
	"ephor.invalid/ephor/internal/world"
)

// hugeKey returns an RSA key with which verifying a signature takes seconds; one of a megabyte would take hours.
func hugeKey() *rsa.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), hugeBits-1)
	return &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 1<<31 - 1}
}

const hugeBits = 65536

// certificateOf returns a certificate in DER with a public key, which another key signed.
func certificateOf(t *testing.T, key any) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "huge"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signer := newKey(elliptic.P256())
	if key == nil {
		key = signer.Public()
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func certificatePEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// A key that anyone may put beside an image is not used if verifying a signature with it takes long.
func TestHugeKeys(t *testing.T) {
	huge, ours := certificateOf(t, hugeKey()), newKey(elliptic.P256())
	signature := base64.StdEncoding.EncodeToString(make([]byte, hugeBits/8))
	der, err := x509.MarshalPKIXPublicKey(hugeKey())
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.StdEncoding.EncodeToString
	entry := []byte(fmt.Sprintf(`{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{"data":{"hash":{"algorithm":"sha256","value":"%s"}},"signature":{"content":"%s","publicKey":{"content":"%s"}}}}`,
		strings.Repeat("ab", 32), signature, encode(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))))
	anyone := func() *world.Attestor {
		return &world.Attestor{Keyless: &world.KeylessAttestor{Subject: "*"}, Rekor: world.Rekor{Ignore: true}, CTLog: world.CTLog{Ignore: true}}
	}
	noted := func(p *testRegistry, name, value string) {
		l := signed(ours, crypto.SHA256, p.claim(nil))
		l.annotations["dev.sigstore.cosign/"+name] = value
		p.attach(".sig", l)
	}
	bundled := func(p *testRegistry, material map[string]any) {
		l := keyBundle(ours, statement(p.digest, predicateSigned, nil, nil))
		var all map[string]any
		if err := json.Unmarshal(l.blob, &all); err != nil {
			t.Fatal(err)
		}
		all["verificationMaterial"] = material
		l.blob, _ = json.Marshal(all)
		p.refer(kindBundle, bundleNotes(predicateSigned), l)
	}
	for _, c := range []struct {
		name  string
		by    *world.Attestor
		write func(*testRegistry)
	}{
		{"the certificate of a layer", anyone(), func(p *testRegistry) {
			l := layer{p.claim(nil), kindClaim, map[string]string{"dev.cosignproject.cosign/signature": signature, "dev.sigstore.cosign/certificate": certificatePEM(huge)}}
			p.attach(".sig", l)
		}},
		{"the chain of a layer", byKey(ours), func(p *testRegistry) { noted(p, "chain", certificatePEM(huge)) }},
		{"the log entry of a layer", byKey(ours), func(p *testRegistry) {
			text, _ := json.Marshal(map[string]any{"SignedEntryTimestamp": []byte("x"), "Payload": map[string]any{"body": entry, "integratedTime": 1, "logIndex": 1, "logID": strings.Repeat("ab", 32)}})
			noted(p, "bundle", string(text))
		}},
		{"the timestamp of a layer", func() *world.Attestor {
			a := byKey(ours)
			a.CTLog.TSACertChain = certificatePEM(certificateOf(t, nil))
			return a
		}(), func(p *testRegistry) {
			content, err := pkcs7.NewSignedData([]byte("x"))
			if err != nil {
				t.Fatal(err)
			}
			cert, err := x509.ParseCertificate(huge)
			if err != nil {
				t.Fatal(err)
			}
			content.AddCertificate(cert)
			token, err := content.Finish()
			if err != nil {
				t.Fatal(err)
			}
			stamp, err := asn1.Marshal(struct {
				Status struct{ Status int }
				Token  asn1.RawValue
			}{Token: asn1.RawValue{FullBytes: token}})
			if err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(map[string]any{"SignedRFC3161Timestamp": stamp})
			noted(p, "rfc3161timestamp", string(text))
		}},
		{"the certificate of a bundle", anyone(), func(p *testRegistry) {
			bundled(p, map[string]any{"certificate": map[string]any{"rawBytes": huge}})
		}},
		{"the log entry of a bundle", byKey(ours), func(p *testRegistry) {
			bundled(p, map[string]any{"publicKey": map[string]any{"hint": "key"}, "tlogEntries": []any{map[string]any{
				"logIndex": "1", "logId": map[string]any{"keyId": []byte("x")}, "kindVersion": map[string]any{"kind": "hashedrekord", "version": "0.0.1"}, "integratedTime": "1",
				"inclusionPromise":  map[string]any{"signedEntryTimestamp": []byte("x")},
				"inclusionProof":    map[string]any{"logIndex": "1", "rootHash": []byte("x"), "treeSize": "2", "checkpoint": map[string]any{"envelope": "x"}},
				"canonicalizedBody": entry,
			}}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			c.write(p)
			wants(t, p.verify(c.by), "an RSA key of 65536 bits is not accepted")
		})
	}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "an RSA key of 65536 bits is not accepted") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = notary.Open([]byte(fmt.Sprintf(`{"payload":"","protected":"","header":{"x5c":[%q]},"signature":""}`, encode(huge))))
	refused("an envelope of Notary", err)
	refused("a trusted root", trust.Check([]byte(fmt.Sprintf(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1",
		"certificateAuthorities":[{"certChain":{"certificates":[{"rawBytes":%q}]},"validFor":{"start":"2020-01-01T00:00:00Z"}}]}`, encode(huge)))))
	p := newPlace(t)
	p.attach(".sig", signed(ours, crypto.SHA256, p.claim(nil)))
	log := byKey(ours)
	log.Rekor = world.Rekor{PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
	refused("the key of a log", p.verify(log))
	refused("the key of a certificate", p.verify(&world.Attestor{Certificate: &world.CertificateAttestor{Certificate: certificatePEM(huge)}, Rekor: world.Rekor{Ignore: true}}))
}
