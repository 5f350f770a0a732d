package sigverify_test

import (
	"crypto"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/world"
)

// TestIdentities verifies the identities of signers, for layers and bundles.
func TestIdentities(t *testing.T) {
	s := newServices(t)
	no := func(c *x509.Certificate) { c.URIs = nil }
	issuers := func(all ...pkix.Extension) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtraExtensions = all }
	}
	for _, c := range []struct {
		name   string
		change []func(*x509.Certificate)
		who    world.KeylessAttestor
		want   string
	}{
		{"exact", nil, world.KeylessAttestor{Issuer: "https://issuer.example", Subject: workflow}, ""},
		{"wildcards cross slashes", nil, world.KeylessAttestor{Issuer: "https://*", Subject: "https://github.com/team/*@refs/tags/*"}, ""},
		{"another subject", nil, world.KeylessAttestor{Issuer: "*", Subject: "https://github.com/other/*"}, "subject mismatch: expected https://github.com/other/*, received " + workflow},
		{"another issuer", nil, world.KeylessAttestor{Issuer: "https://other.example", Subject: "*"}, "issuer mismatch: expected https://other.example, received https://issuer.example"},
		{"a regexp is not anchored", nil, world.KeylessAttestor{IssuerRegExp: "issuer", SubjectRegExp: "team/app"}, ""},
		{"a regexp that does not match", nil, world.KeylessAttestor{SubjectRegExp: "^team"}, "subject mismatch: expected ^team"},
		{"subject or regexp", nil, world.KeylessAttestor{Subject: "nobody", SubjectRegExp: "team/app"}, ""},
		{"issuer and regexp", nil, world.KeylessAttestor{Issuer: "https://issuer.example", IssuerRegExp: "other"}, "issuer mismatch: expected other"},
		{"a broken regexp", nil, world.KeylessAttestor{SubjectRegExp: "("}, "!invalid regexp for subject: ( :"},
		{"no identity is demanded", nil, world.KeylessAttestor{}, ""},
		{"no subject", []func(*x509.Certificate){no}, world.KeylessAttestor{Subject: "*"}, "subject mismatch: expected *, received "},
		{"no subject, by regexp", []func(*x509.Certificate){no}, world.KeylessAttestor{SubjectRegExp: ".*"}, "subject mismatch: expected .*, received "},
		{"e-mail", []func(*x509.Certificate){no, func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.com"} }}, world.KeylessAttestor{Subject: "*@example.com"}, ""},
		{"DNS", []func(*x509.Certificate){no, func(c *x509.Certificate) { c.DNSNames = []string{"build.example.com"} }}, world.KeylessAttestor{Subject: "build.*"}, ""},
		{"address", []func(*x509.Certificate){no, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }}, world.KeylessAttestor{Subject: "10.0.0.1"}, ""},
		{"the second of two subjects", []func(*x509.Certificate){func(c *x509.Certificate) {
			u, _ := url.Parse("https://second.example")
			c.URIs = append(c.URIs, u)
		}}, world.KeylessAttestor{Subject: "https://second.example"}, ""},
		{"issuer in the old extension only", []func(*x509.Certificate){issuers(extensionText(1, "https://issuer.example"))}, world.KeylessAttestor{Issuer: "https://issuer.example"}, ""},
		{"issuer in the new extension only", []func(*x509.Certificate){issuers(extensionDER(8, "https://issuer.example"))}, world.KeylessAttestor{Issuer: "https://issuer.example"}, ""},
		{"two issuers", []func(*x509.Certificate){issuers(extensionText(1, "https://issuer.example"), extensionDER(8, "https://other.example"))},
			world.KeylessAttestor{Issuer: "https://issuer.example"}, "issuer mismatch: the certificate names both"},
		{"no issuer", []func(*x509.Certificate){issuers()}, world.KeylessAttestor{Issuer: "https://*"}, "issuer mismatch: expected https://*, received "},
		{"extension by name", nil, world.KeylessAttestor{Extensions: map[string]string{"oidcIssuer": "https://issuer.*"}}, ""},
		{"extension by number", nil, world.KeylessAttestor{Extensions: map[string]string{"1.3.6.1.4.1.57264.1.12": "https://github.com/team/*"}}, ""},
		{"another extension", nil, world.KeylessAttestor{Extensions: map[string]string{"githubWorkflowTrigger": "push"}}, "extension mismatch: expected push for key githubWorkflowTrigger, received "},
		{"an extension that is none", nil, world.KeylessAttestor{Extensions: map[string]string{"1.2.3": "*"}}, "!invalid certificate extension 1.2.3"},
		{"any of several", nil, world.KeylessAttestor{Subject: "nobody", Others: []world.Identity{{Subject: "https://github.com/team/*", Issuer: "https://issuer.example"}}}, ""},
		{"none of several", nil, world.KeylessAttestor{Subject: "nobody", Others: []world.Identity{{Subject: "no one"}}}, "subject mismatch: expected nobody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.trust = s
			signer := s.person(c.change...)
			p.attach(".sig", s.signedBy(signer, p.claim(nil), time.Now()))
			wants(t, p.verify(&world.Attestor{Keyless: &c.who}), c.want)

			p = newPlace(t)
			p.trust = s
			p.refer(kindBundle, nil, s.bundleBy(signer, statement(p.digest, "https://sigstore.dev/cosign/sign/v1", nil, nil), time.Now()))
			wants(t, p.verify(&world.Attestor{Keyless: &c.who}, func(r *world.SignatureRequest) { r.Format = sigverify.Bundle }), c.want)
		})
	}
}

// TestOneSignatureSatisfiesAll checks that identity and annotation must come from the same signature.
func TestOneSignatureSatisfiesAll(t *testing.T) {
	s, p := newServices(t), newPlace(t)
	p.trust = s
	other := s.person(func(c *x509.Certificate) { c.URIs, c.EmailAddresses = nil, []string{"other@example.com"} })
	p.attach(".sig", s.signedBy(s.person(), p.claim(nil), time.Now()), s.signedBy(other, p.claim(map[string]any{"env": "prod"}), time.Now()))
	a := byName("https://issuer.example", workflow)
	wants(t, p.verify(a), "")
	a.Annotations = map[string]string{"env": "prod"}
	wants(t, p.verify(a), "no signature matched the required annotations")
	a.Keyless.Subject = "other@example.com"
	wants(t, p.verify(a), "")
}

// TestLogsAndTimes verifies log entries, certificates and their timestamps.
func TestLogsAndTimes(t *testing.T) {
	s, foreign := newServices(t), newServices(t)
	past := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-30*time.Minute), time.Now().Add(-20*time.Minute)
	}
	unlogged := func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"unlogged.example"} }
	whileValid := time.Now().Add(-25 * time.Minute)
	for _, c := range []struct {
		name   string
		write  func(*testRegistry)
		demand func(*world.Attestor)
		want   string
	}{
		{"expired now, valid when it was logged", func(p *testRegistry) { p.attach(".sig", s.signedBy(s.person(past), p.claim(nil), whileValid)) }, nil, ""},
		{"valid now, not when it was logged", func(p *testRegistry) { p.attach(".sig", s.signedBy(s.person(), p.claim(nil), whileValid)) }, nil,
			"checking expiry on certificate with bundle: certificate was issued after observed time"},
		{"expired when it was logged", func(p *testRegistry) { p.attach(".sig", s.signedBy(s.person(past), p.claim(nil), time.Now())) }, nil,
			"checking expiry on certificate with bundle: certificate expired before observed time: "},
		{"expired, and no log is required", func(p *testRegistry) { p.attach(".sig", s.signedBy(s.person(past), p.claim(nil), time.Time{})) },
			func(a *world.Attestor) { a.Rekor.Ignore = true }, "expected a signed timestamp to verify an expired certificate"},
		{"valid, and no log is required", func(p *testRegistry) { p.attach(".sig", s.signedBy(s.person(), p.claim(nil), time.Time{})) },
			func(a *world.Attestor) { a.Rekor.Ignore = true }, ""},
		{"the entry of another signature", func(p *testRegistry) {
			signer := s.person()
			l, other := s.signedBy(signer, p.claim(nil), time.Now()), s.signedBy(signer, p.claim(nil), time.Now())
			l.annotations["dev.sigstore.cosign/bundle"] = other.annotations["dev.sigstore.cosign/bundle"]
			p.attach(".sig", l)
		}, nil, "transparency log signature does not match"},
		{"the entry of another signer", func(p *testRegistry) {
			signer := s.person()
			l := s.signedBy(signer, p.claim(nil), time.Now())
			sig := sign(signer.key, crypto.SHA256, p.claim(nil))
			l.annotations["dev.sigstore.cosign/bundle"] = s.log(hashed(p.claim(nil), sig, certPEM(s.person().cert)), time.Now()).cosignBundle()
			p.attach(".sig", l)
		}, nil, "the log entry cannot be read"},
		{"the entry of a foreign log", func(p *testRegistry) {
			signer := s.person()
			p.attach(".sig", func() layer {
				l := foreign.signedBy(signer, p.claim(nil), time.Now())
				l.annotations["dev.sigstore.cosign/chain"] = certPEM(s.root)
				return l
			}())
		}, nil, "not enough verified log entries from transparency log: 0 < 1"},
		{"an entry that its log did not sign", func(p *testRegistry) {
			l := s.signedBy(s.person(), p.claim(nil), time.Now())
			l.annotations["dev.sigstore.cosign/bundle"] = strings.Replace(l.annotations["dev.sigstore.cosign/bundle"], `"logIndex":`, `"logIndex":7`, 1)
			p.attach(".sig", l)
		}, nil, "not enough verified log entries from transparency log: 0 < 1"},
		{"an entry that is garbage", func(p *testRegistry) {
			l := s.signedBy(s.person(), p.claim(nil), time.Now())
			l.annotations["dev.sigstore.cosign/bundle"] = "{"
			p.attach(".sig", l)
		}, nil, "the log entry cannot be read"},
		{"a foreign authority", func(p *testRegistry) {
			p.attach(".sig", func() layer {
				signer := foreign.person()
				return s.signedBy(signer, p.claim(nil), time.Now())
			}())
		}, nil, "failed to verify leaf certificate"},
		{"the roots of the policy", func(p *testRegistry) { p.attach(".sig", s.signedBy(foreign.person(), p.claim(nil), time.Now())) },
			func(a *world.Attestor) { a.Keyless.Roots = certPEM(foreign.root); a.CTLog.Ignore = true }, ""},
		{"the roots and the keys of the policy", func(p *testRegistry) { p.attach(".sig", foreign.signedBy(foreign.person(), p.claim(nil), time.Now())) },
			func(a *world.Attestor) {
				a.Keyless.Roots, a.CTLog.PublicKey, a.Rekor.PublicKey = certPEM(foreign.root), publicPEM(foreign.ctKey), foreign.rekorPEM()
			}, ""},
		{"no certificate timestamp", func(p *testRegistry) { p.attach(".sig", s.signedBy(s.person(unlogged), p.claim(nil), time.Now())) },
			func(a *world.Attestor) { a.Keyless.Subject = "*" }, "certificate does not include required embedded SCT"},
		{"no certificate timestamp is required", func(p *testRegistry) { p.attach(".sig", s.signedBy(s.person(unlogged), p.claim(nil), time.Now())) },
			func(a *world.Attestor) { a.Keyless.Subject = "*"; a.CTLog.Ignore = true }, ""},
		{"a certificate timestamp of another log", func(p *testRegistry) { p.attach(".sig", s.signedBy(s.person(), p.claim(nil), time.Now())) },
			func(a *world.Attestor) { a.CTLog.PublicKey = publicPEM(foreign.ctKey) }, "certificate does not include required embedded SCT"},
		{"no certificate", func(p *testRegistry) { p.attach(".sig", signed(newKey(elliptic.P256()), crypto.SHA256, p.claim(nil))) }, nil, "no certificate found on signature"},
		{"a bundle", func(p *testRegistry) {
			p.refer(kindBundle, nil, s.bundleBy(s.person(), statement(p.digest, "https://sigstore.dev/cosign/sign/v1", nil, nil), time.Now()))
		}, nil, ""},
		{"a bundle without certificate timestamp", func(p *testRegistry) {
			p.refer(kindBundle, nil, s.bundleBy(s.person(unlogged), statement(p.digest, "https://sigstore.dev/cosign/sign/v1", nil, nil), time.Now()))
		}, func(a *world.Attestor) { a.Keyless.Subject = "*" }, "certificate does not include required embedded SCT"},
		{"a bundle with a timestamp and no log", func(p *testRegistry) {
			p.refer(kindBundle, nil, s.bundleBy(s.person(), statement(p.digest, "https://sigstore.dev/cosign/sign/v1", nil, nil), time.Time{}, s.stamped))
		}, func(a *world.Attestor) { a.Rekor.Ignore = true }, ""},
		{"a bundle with nothing that proves a time", func(p *testRegistry) {
			p.refer(kindBundle, nil, s.bundleBy(s.person(), statement(p.digest, "https://sigstore.dev/cosign/sign/v1", nil, nil), time.Time{}))
		}, func(a *world.Attestor) { a.Rekor.Ignore = true }, "no valid observer timestamps found"},
		{"a bundle about another digest", func(p *testRegistry) {
			digest := p.digest
			digest.Hex = strings.Repeat("0", 64)
			p.refer(kindBundle, nil, s.bundleBy(s.person(), statement(digest, "https://sigstore.dev/cosign/sign/v1", nil, nil), time.Now()))
		}, nil, "no subject of the statement has the digest"},
		{"a bundle with two signatures", func(p *testRegistry) {
			p.refer(kindBundle, nil, s.bundleBy(s.person(), statement(p.digest, "https://sigstore.dev/cosign/sign/v1", nil, nil), time.Now(), func(b object) {
				e := b["dsseEnvelope"].(object)
				e["signatures"] = append(e["signatures"].([]any), e["signatures"].([]any)...)
			}))
		}, nil, "exactly one signature is required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.trust = s
			c.write(p)
			a := byName("https://issuer.example", workflow)
			if c.demand != nil {
				c.demand(a)
			}
			wants(t, p.verify(a), c.want)
			if a.Keyless.Roots != "" && a.CTLog.PublicKey != "" && p.trusted > 0 {
				t.Error("the trust is asked though the policy brings all that it needs")
			}
		})
	}
}

func (s *services) rekorPEM() string {
	for _, log := range s.RekorLogs() {
		return publicPEM(publicOnly{log.PublicKey})
	}
	return ""
}

// publicOnly has a public key.
type publicOnly struct{ key crypto.PublicKey }

func (p publicOnly) Public() crypto.PublicKey { return p.key }
func (publicOnly) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	panic("it signs nothing")
}

// TestCertificates verifies signatures with certificates in a policy.
func TestCertificates(t *testing.T) {
	s := newServices(t)
	signer := s.person()
	for _, c := range []struct {
		name string
		in   world.CertificateAttestor
		want string
	}{
		{"the certificate", world.CertificateAttestor{Certificate: certPEM(signer.cert)}, ""},
		{"another certificate", world.CertificateAttestor{Certificate: certPEM(s.person().cert)}, "no matching signatures: invalid signature"},
		{"what the chain vouches for", world.CertificateAttestor{Chain: certPEM(s.root)}, ""},
		{"another chain", world.CertificateAttestor{Chain: certPEM(newServices(t).root)}, "failed to verify leaf certificate"},
		{"both", world.CertificateAttestor{Certificate: certPEM(signer.cert), Chain: certPEM(s.root)}, ""},
		{"both, and they do not belong together", world.CertificateAttestor{Certificate: certPEM(signer.cert), Chain: certPEM(newServices(t).root)}, "failed to verify leaf certificate"},
		{"no PEM", world.CertificateAttestor{Certificate: "x"}, "!failed to load certificate from x: it contains no certificate in PEM"},
		{"12 certificates", world.CertificateAttestor{Chain: strings.Repeat(certPEM(s.root), 12)}, "!certificate chain too long (12), maximum allowed is 11"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.trust = s
			p.attach(".sig", s.signedBy(signer, p.claim(nil), time.Now()))
			wants(t, p.verify(&world.Attestor{Certificate: &c.in}), c.want)
		})
	}
}

// TestKeyedLogEntries verifies the log entries of signatures by keys.
func TestKeyedLogEntries(t *testing.T) {
	s, key := newServices(t), newKey(elliptic.P256())
	logged := func(p *testRegistry, verifier string) layer {
		l := signed(key, crypto.SHA256, p.claim(nil))
		var sig []byte
		_ = json.Unmarshal([]byte(`"`+l.annotations["dev.cosignproject.cosign/signature"]+`"`), &sig)
		l.annotations["dev.sigstore.cosign/bundle"] = s.log(hashed(p.claim(nil), sig, verifier), time.Now()).cosignBundle()
		return l
	}
	a := &world.Attestor{Key: &world.KeyAttestor{PublicKey: publicPEM(key)}}
	p := newPlace(t)
	p.trust = s
	p.attach(".sig", logged(p, publicPEM(key)))
	wants(t, p.verify(a), "")
	p = newPlace(t)
	p.trust = s
	p.attach(".sig", logged(p, publicPEM(newKey(elliptic.P256()))))
	wants(t, p.verify(a), "the log entry cannot be read")
	// The log key in the policy replaces the trusted material.
	p = newPlace(t)
	p.attach(".sig", logged(p, publicPEM(key)))
	a.Rekor.PublicKey = s.rekorPEM()
	wants(t, p.verify(a), "")
	if p.trusted > 0 {
		t.Error("the trust is asked though the policy brings all that it needs")
	}
}

// TestAttestationEntries verifies all kinds of log entries for attestations.
func TestAttestationEntries(t *testing.T) {
	s, foreign := newServices(t), newServices(t)
	const kind = "https://example.com/scan/v1"
	for _, c := range []struct {
		name string
		body func([]byte, string) object
		log  *services
		want string
	}{
		{"dsse", enveloped, s, ""}, {"intoto 0.0.1", oldEnveloped, s, ""},
		{"intoto 0.0.1 of a foreign log", oldEnveloped, foreign, "rekor log public key not found for payload"},
		{"intoto 0.0.1 of another envelope", func(_ []byte, v string) object { return oldEnveloped([]byte("{}"), v) }, s, "the log entry is for a different envelope"},
		{"intoto 0.0.1 of another signer", func(e []byte, _ string) object { return oldEnveloped(e, certPEM(s.person().cert)) }, s, "transparency log certificate does not match"},
		{"an unknown kind", func(e []byte, v string) object {
			o := enveloped(e, v)
			o["kind"] = "other"
			return o
		}, s, "the log entry cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, signer := newPlace(t), s.person()
			p.trust = s
			l := p.attested(signer.key, kind, map[string]any{"n": 1})
			l.annotations["dev.sigstore.cosign/certificate"] = certPEM(signer.cert)
			l.annotations["dev.sigstore.cosign/bundle"] = c.log.log(c.body(l.blob, certPEM(signer.cert)), time.Now()).cosignBundle()
			p.attach(".att", l)
			found, err := p.statements(byName("https://issuer.example", workflow), kind)
			wants(t, err, c.want)
			if c.want == "" && len(found) != 1 {
				t.Errorf("%d statements", len(found))
			}
			// Without an attestor, any signer whom the authorities certify is accepted.
			if _, err = p.statements(nil, kind); err == nil != (c.want == "") {
				t.Errorf("without an attestor: %v", err)
			}
		})
	}
}

// TestTimestamps verifies timestamps with the chain in the policy.
func TestTimestamps(t *testing.T) {
	s, foreign := newServices(t), newServices(t)
	chain := func(s *services) string {
		a := s.TimestampingAuthorities()[0].(*root.SigstoreTimestampingAuthority)
		return certPEM(a.Root) + certPEM(a.Leaf) + certPEM(a.Intermediates[0])
	}
	stamp := func(l layer, by *services, over []byte) layer {
		var sig []byte
		_ = json.Unmarshal([]byte(`"`+l.annotations["dev.cosignproject.cosign/signature"]+`"`), &sig)
		if over != nil {
			sig = over
		}
		text, err := by.TimestampResponse(sig)
		if err != nil {
			t.Fatal(err)
		}
		note, _ := json.Marshal(object{"SignedRFC3161Timestamp": text})
		l.annotations["dev.sigstore.cosign/rfc3161timestamp"] = string(note)
		return l
	}
	leaf := s.person().cert
	for _, c := range []struct {
		name  string
		layer func(p *testRegistry) layer
		chain string
		want  string
	}{
		{"good", func(p *testRegistry) layer { return stamp(s.signedBy(s.person(), p.claim(nil), time.Time{}), s, nil) }, chain(s), ""},
		{"none", func(p *testRegistry) layer { return s.signedBy(s.person(), p.claim(nil), time.Time{}) }, chain(s), "expected a signed timestamp"},
		{"of another authority", func(p *testRegistry) layer {
			return stamp(s.signedBy(s.person(), p.claim(nil), time.Time{}), foreign, nil)
		}, chain(s), "unable to verify RFC3161 timestamp bundle: "},
		{"over other bytes", func(p *testRegistry) layer {
			return stamp(s.signedBy(s.person(), p.claim(nil), time.Time{}), s, []byte("x"))
		}, chain(s), "unable to verify RFC3161 timestamp bundle: "},
		{"two leaves", func(p *testRegistry) layer { return s.signedBy(s.person(), p.claim(nil), time.Time{}) }, chain(s) + certPEM(leaf), "!certificate chain must contain at most one TSA certificate"},
		{"13 certificates", func(p *testRegistry) layer { return s.signedBy(s.person(), p.claim(nil), time.Time{}) }, strings.Repeat(certPEM(leaf), 13),
			"!TSA certificate chain contains too many certificates (13), maximum allowed is 12"},
		{"11 between", func(p *testRegistry) layer { return s.signedBy(s.person(), p.claim(nil), time.Time{}) },
			strings.Repeat(certPEM(s.TimestampingAuthorities()[0].(*root.SigstoreTimestampingAuthority).Intermediates[0]), 11), "!too many intermediate certificates (11), maximum allowed is 10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.trust = s
			p.attach(".sig", c.layer(p))
			a := byName("https://issuer.example", workflow)
			a.Rekor.Ignore, a.CTLog.TSACertChain = true, c.chain
			wants(t, p.verify(a), c.want)
		})
	}
}

// TestSearch searches for the log entry of a signature that was stored without one.
func TestSearch(t *testing.T) {
	s, key := newServices(t), newKey(elliptic.P256())
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, found []byte)
		want   string
	}{
		{"found", func(w http.ResponseWriter, found []byte) { _, _ = w.Write(found) }, ""},
		{"not found", func(w http.ResponseWriter, _ []byte) { _, _ = w.Write([]byte("[]")) }, "no matching signatures: signature not found in transparency log"},
		{"garbage", func(w http.ResponseWriter, _ []byte) { _, _ = w.Write([]byte("x")) }, "!searching the transparency log: the answer cannot be read"},
		{"out of order", func(w http.ResponseWriter, _ []byte) { w.WriteHeader(500) }, "!searching the transparency log: the log answers 500"},
		{"too long", func(w http.ResponseWriter, _ []byte) { _, _ = w.Write(slices.Repeat([]byte("x"), 2<<20)) }, "!the log answers with more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.trust = s
			l := signed(key, crypto.SHA256, p.claim(nil))
			var sig []byte
			_ = json.Unmarshal([]byte(`"`+l.annotations["dev.cosignproject.cosign/signature"]+`"`), &sig)
			p.attach(".sig", l)
			logged := s.log(hashed(p.claim(nil), sig, publicPEM(key)), time.Now())
			proof, err := s.GetInclusionProof(logged.body)
			if err != nil {
				t.Fatal(err)
			}
			found, _ := json.Marshal([]object{{"abc": object{
				"body": logged.body, "integratedTime": logged.at.Unix(), "logID": logged.id, "logIndex": logged.n,
				"verification": object{"signedEntryTimestamp": logged.set, "inclusionProof": object{
					"checkpoint": proof.Checkpoint, "hashes": []string{}, "logIndex": proof.LogIndex, "rootHash": proof.RootHash, "treeSize": proof.TreeSize,
				}},
			}}})
			log := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.URL.Path != "/api/v1/log/entries/retrieve" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				c.answer(w, found)
			}))
			t.Cleanup(log.Close)
			a := &world.Attestor{Key: &world.KeyAttestor{PublicKey: publicPEM(key)}, Rekor: world.Rekor{URL: log.URL}}
			wants(t, p.verify(a), c.want)
			// A namespaced policy sends only permitted requests.
			p.renew(func(o *sigverify.Options) {
				o.Permit = func(u *url.URL) error { return &url.Error{Op: "ask", URL: u.String(), Err: errNoTrust} }
			})
			wants(t, p.verify(a, func(r *world.SignatureRequest) { r.Registry.Confined = true }), "!the trust is out of reach")
		})
	}
}

// BenchmarkKeyed and BenchmarkBundle verify without reading: the image is cached, the verdict is not.
func BenchmarkKeyed(b *testing.B) {
	p, key := newPlace(b), newKey(elliptic.P256())
	p.attach(".sig", signed(key, crypto.SHA256, p.claim(nil)))
	benchmark(b, p, byKey(key))
}

func BenchmarkBundle(b *testing.B) {
	p, s := newPlace(b), newServices(b)
	p.trust = s
	p.refer(kindBundle, nil, s.bundleBy(s.person(), statement(p.digest, "https://sigstore.dev/cosign/sign/v1", nil, nil), time.Now()))
	benchmark(b, p, byName("https://issuer.example", workflow))
}

func benchmark(b *testing.B, p *testRegistry, a *world.Attestor) {
	if err := p.verify(a); err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		// Another mirror in the trust makes it a different query.
		a.Trust.Mirror = strings.Repeat("x", n%50)
		if n%50 == 0 {
			p.renew()
		}
		if err := p.verify(a); err != nil {
			b.Fatal(err)
		}
	}
}
