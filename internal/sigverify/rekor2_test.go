package sigverify_test

import (
	"crypto/elliptic"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"google.golang.org/protobuf/encoding/protojson"

	"ephor.invalid/ephor/internal/world"
)

// rekor2 returns a bundle of version 0.3 that an identity signed, with an entry of a log of version 2: it has an inclusion proof and no
// signed time.
func rekor2(t *testing.T, s *ca.VirtualSigstore, text []byte) object {
	t.Helper()
	e, err := s.AttestHashedRekordV2("ann@example.com", "https://issuer.example", text)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := e.TlogEntries()
	if err != nil || len(entries) != 1 || !entries[0].IsRekorV2() || entries[0].HasInclusionPromise() {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	logged, err := protojson.Marshal(entries[0].TransparencyLogEntry())
	if err != nil {
		t.Fatal(err)
	}
	stamps, err := e.Timestamps()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := e.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	content, err := e.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	var entry, envelope object
	_ = json.Unmarshal(logged, &entry)
	signed, _ := json.Marshal(content.EnvelopeContent().RawEnvelope())
	_ = json.Unmarshal(signed, &envelope)
	return object{"mediaType": kindBundle, "dsseEnvelope": envelope, "verificationMaterial": object{
		"certificate": object{"rawBytes": signer.Certificate().Raw}, "tlogEntries": []any{entry},
		"timestampVerificationData": object{"rfc3161Timestamps": []any{object{"signedTimestamp": stamps[0]}}},
	}}
}

// TestRekor2: an entry of a log of version 2 is accepted with a timestamp of an authority, and only if all parts belong to this signature.
func TestRekor2(t *testing.T) {
	s, foreign := newServices(t).VirtualSigstore, newServices(t).VirtualSigstore
	material := func(b object) object { return b["verificationMaterial"].(object) }
	entry := func(b object) object { return material(b)["tlogEntries"].([]any)[0].(object) }
	proof := func(b object) object { return entry(b)["inclusionProof"].(object) }
	checkpoint := func(b object) object { return proof(b)["checkpoint"].(object) }
	var rekorKey string
	for _, log := range s.RekorLogs() {
		der, err := x509.MarshalPKIXPublicKey(log.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		rekorKey = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, p *testRegistry, b object)
		demand func(*world.Attestor)
		want   string
	}{
		{"as it was made", nil, nil, ""},
		{"a log that the policy names", nil, func(a *world.Attestor) { a.Rekor = world.Rekor{PublicKey: rekorKey, URL: "https://rekor.localhost"} }, ""},
		{"a log of another name", nil, func(a *world.Attestor) { a.Rekor = world.Rekor{PublicKey: rekorKey, URL: "https://rekor.example"} }, "log entry"},
		{"another log", nil, func(a *world.Attestor) {
			a.Rekor = world.Rekor{PublicKey: publicPEM(newKey(elliptic.P256())), URL: "https://rekor.localhost"}
		}, "not enough verified log entries"},
		{"another identity", nil, func(a *world.Attestor) { a.Keyless.Subject = "bob@example.com" }, "subject mismatch"},
		{"no timestamp: the time of the entry is signed by no one", func(_ *testing.T, _ *testRegistry, b object) { delete(material(b), "timestampVerificationData") }, nil, "no valid observer timestamps found"},
		{"the timestamp of another authority", func(t *testing.T, p *testRegistry, b object) {
			other := rekor2(t, foreign, statement(p.digest, "https://sigstore.dev/cosign/sign/v1", object{}, nil))
			material(b)["timestampVerificationData"] = material(other)["timestampVerificationData"]
		}, nil, "unable to verify RFC3161 timestamp bundle"},
		{"the timestamp of another signature", func(t *testing.T, p *testRegistry, b object) {
			other := rekor2(t, s, statement(p.digest, "https://sigstore.dev/cosign/sign/v1", object{}, nil))
			material(b)["timestampVerificationData"] = material(other)["timestampVerificationData"]
		}, nil, "unable to verify RFC3161 timestamp bundle"},
		{"no entry", func(_ *testing.T, _ *testRegistry, b object) { delete(material(b), "tlogEntries") }, nil, "not enough verified log entries"},
		{"the entry of another signature", func(t *testing.T, p *testRegistry, b object) {
			other := rekor2(t, s, statement(p.digest, "https://sigstore.dev/cosign/sign/v1", object{}, nil))
			material(b)["tlogEntries"] = material(other)["tlogEntries"]
		}, nil, "log entry"},
		{"the entry of another log", func(t *testing.T, p *testRegistry, b object) {
			other := rekor2(t, foreign, statement(p.digest, "https://sigstore.dev/cosign/sign/v1", object{}, nil))
			material(b)["tlogEntries"] = material(other)["tlogEntries"]
		}, nil, "not enough verified log entries"},
		{"no inclusion proof", func(_ *testing.T, _ *testRegistry, b object) { delete(entry(b), "inclusionProof") }, nil, "inclusion proof"},
		{"another root beside the checkpoint: the signed one counts", func(_ *testing.T, _ *testRegistry, b object) { proof(b)["rootHash"] = make([]byte, 32) }, nil, ""},
		{"another index", func(_ *testing.T, _ *testRegistry, b object) { proof(b)["logIndex"], entry(b)["logIndex"] = "5", "5" }, nil, "log entry"},
		{"more hashes", func(_ *testing.T, _ *testRegistry, b object) { proof(b)["hashes"] = [][]byte{make([]byte, 32)} }, nil, "log entry"},
		{"another checkpoint", func(_ *testing.T, _ *testRegistry, b object) {
			text := checkpoint(b)["envelope"].(string)
			checkpoint(b)["envelope"] = strings.Replace(text, "\n1\n", "\n2\n", 1)
		}, nil, "log entry"},
		{"a checkpoint by another log", func(t *testing.T, p *testRegistry, b object) {
			other := rekor2(t, foreign, statement(p.digest, "https://sigstore.dev/cosign/sign/v1", object{}, nil))
			checkpoint(b)["envelope"] = checkpoint(other)["envelope"]
		}, nil, "log entry"},
		{"another statement", func(_ *testing.T, p *testRegistry, b object) {
			b["dsseEnvelope"].(object)["payload"] = statement(p.digest, "https://sigstore.dev/cosign/sign/v1", object{"other": true}, nil)
		}, nil, "invalid signature"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.trust = s
			b := rekor2(t, s, statement(p.digest, "https://sigstore.dev/cosign/sign/v1", object{}, nil))
			if c.change != nil {
				c.change(t, p, b)
			}
			text, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			p.refer(kindBundle, bundleNotes("https://sigstore.dev/cosign/sign/v1"), layer{text, kindBundle, nil})
			a := byName("https://issuer.example", "ann@example.com")
			a.CTLog.Ignore = true // the authority of the test has no certificate log
			if c.demand != nil {
				c.demand(a)
			}
			wants(t, p.verify(a), c.want)
		})
	}
}
