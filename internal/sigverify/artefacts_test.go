package sigverify_test

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/sigverify/fixture"
	"ephor.invalid/ephor/internal/sigverify/notary"
	"ephor.invalid/ephor/internal/world"
)

// fixtureKeys reads attestors' keys in PEM.
type fixtureKeys struct{}

func (fixtureKeys) Key(_ context.Context, k *world.KeyAttestor, _ bool) (crypto.PublicKey, error) {
	block, _ := pem.Decode([]byte(k.PublicKey))
	if block == nil {
		return nil, errors.New("no PEM")
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}

// fixtureTrust is the trusted root of the fixture.
type fixtureTrust struct{}

func (fixtureTrust) Material(context.Context, world.Trust) (root.TrustedMaterial, error) {
	return root.NewTrustedRootFromJSON(fixture.Load().Trust.TrustedRoot)
}

// served returns a verifier that uses a server of the fixture.
func served(t testing.TB, handler http.Handler, timeout time.Duration) (*sigverify.Verifier, *fixture.Server) {
	t.Helper()
	server := fixture.Start(t, handler)
	client, err := registry.New(registry.Options{Dial: server.Dial, Insecure: true, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	v, err := sigverify.New(sigverify.Options{Registry: client, Keys: fixtureKeys{}, Trust: fixtureTrust{}, HTTP: noLog{}, Now: later, Notary: newNotary(t)})
	if err != nil {
		t.Fatal(err)
	}
	return v, server
}

// later returns a time two days after the images were signed, whenever the test runs. By then, certificates that are valid for minutes have
// expired.
func later() time.Time { return fixture.Load().Made.Add(48 * time.Hour) }

// noLog is a network without transparency logs.
type noLog struct{}

func (noLog) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, errors.New("the log " + r.URL.Host + " is not reachable")
}

// The attestors of the tests.
func realKey(name string) *world.Attestor {
	return &world.Attestor{Key: &world.KeyAttestor{PublicKey: fixture.Load().Keys[name]}, Rekor: world.Rekor{Ignore: true}, CTLog: world.CTLog{Ignore: true}}
}

func logged(a *world.Attestor) *world.Attestor { a.Rekor.Ignore = false; return a }

func noted(a *world.Attestor, key, value string) *world.Attestor {
	a.Annotations = map[string]string{key: value}
	return a
}

func stamped(a *world.Attestor) *world.Attestor {
	a.CTLog.TSACertChain = fixture.Load().Trust.TSA
	return a
}

func someone(subject, issuer string) *world.Attestor {
	return &world.Attestor{Keyless: &world.KeylessAttestor{Subject: subject, Issuer: issuer}}
}

const (
	accounts  = "https://accounts.ephor.test"
	actions   = "https://token.actions.githubusercontent.com"
	releaseOf = "https://github.com/ephor-test/app/.github/workflows/release.yaml@refs/tags/v1"
	somebody  = "someone@ephor.test"
)

// own adds the roots and the keys of logs that the policy itself contains.
func own(a *world.Attestor) *world.Attestor {
	f := fixture.Load()
	a.Keyless.Roots = f.Trust.Roots
	a.Rekor.PublicKey, a.CTLog.PublicKey = f.Trust.Rekor, f.Trust.CTLog
	return a
}

func ignoring(a *world.Attestor, log, sct bool) *world.Attestor {
	a.Rekor.Ignore, a.CTLog.Ignore = log, sct
	return a
}

func elsewhere(a *world.Attestor) *world.Attestor {
	a.Keyless.Roots = fixture.Load().Trust.OtherRoots
	return a
}

// TestArtefacts verifies images that cosign signed. An empty want means that the image is verified; otherwise it is a part of the reason.
func TestArtefacts(t *testing.T) {
	f := fixture.Load()
	type row struct {
		image    string
		attestor *world.Attestor
		want     string
	}
	var rows []row
	add := func(image string, a *world.Attestor, want string) { rows = append(rows, row{image, a, want}) }
	for _, kind := range []string{"p256", "p384", "p521", "rsa2048", "rsa4096", "ed25519"} {
		add("key-"+kind, realKey(kind), "")
		add("key-"+kind, realKey("stranger"), "no matching signatures")
	}
	add("unsigned", realKey("p256"), "no signatures found")
	add("annotated", noted(realKey("p256"), "env", "prod"), "")
	add("annotated", noted(realKey("p256"), "env", "dev"), "annotations")
	add("annotated", noted(realKey("p256"), "Env", "prod"), "annotations")
	add("two-keys", realKey("p256"), "")
	add("two-keys", realKey("p384"), "")
	add("two-keys", realKey("second"), "no matching signatures")
	add("two-keys-annotated", noted(realKey("p256"), "env", "dev"), "")
	add("two-keys-annotated", noted(realKey("p256"), "env", "prod"), "annotations")
	add("key-log", logged(realKey("p256")), "")
	add("key-log-second", logged(realKey("second")), "")
	add("key-log-second", logged(realKey("p256")), "no matching signatures")
	add("key-tsa", stamped(realKey("p256")), "")
	add("key-log-tsa", stamped(logged(realKey("p256"))), "")
	add("key-referrers", realKey("p256"), "")
	add("key-referrers", realKey("p384"), "no matching signatures")
	add("key-elsewhere", realKey("p256"), "no signatures found")
	add("key-cosign3", realKey("p256"), "")
	add("index", realKey("p256"), "")
	add("index/amd64", realKey("p256"), "no signatures found")
	add("index-unsigned", realKey("p256"), "no signatures found")
	add("index-unsigned/amd64", realKey("p256"), "")
	add("index-unsigned/arm64", realKey("p256"), "no signatures found")

	for _, demand := range []func(*world.Attestor) *world.Attestor{func(a *world.Attestor) *world.Attestor { return a }, own} {
		add("keyless-email", demand(someone(somebody, accounts)), "")
		add("keyless-email", demand(someone("*@ephor.test", "https://*")), "")
		add("keyless-email", demand(someone("another@ephor.test", accounts)), "subject mismatch")
		add("keyless-email", demand(someone(somebody, actions)), "issuer mismatch")
		add("keyless-uri", demand(someone(releaseOf, actions)), "")
		add("keyless-uri", demand(someone("https://github.com/ephor-test/*", actions)), "")
		add("keyless-uri", demand(someone("https://github.com/other/*", actions)), "subject mismatch")
		add("keyless-dns", demand(someone("build.ephor.test", actions)), "")
		add("keyless-username", demand(someone("someone!ephor.test", actions)), "")
		add("keyless-nosan", demand(someone("*", actions)), "subject mismatch")
		add("keyless-nosan", demand(someone(somebody, actions)), "subject mismatch")
		add("keyless-issuer-v1", demand(someone(somebody, accounts)), "")
		add("keyless-issuer-v2", demand(someone(somebody, accounts)), "")
		add("keyless-issuers", demand(someone(somebody, accounts)), "issuer")
		add("keyless-expired", demand(someone(somebody, accounts)), "no matching signatures")
		add("keyless-early", demand(someone(somebody, accounts)), "no matching signatures")
		add("keyless-nosct", demand(someone(somebody, accounts)), "no matching signatures")
		add("keyless-nosct", ignoring(demand(someone(somebody, accounts)), false, true), "")
		add("keyless-unknownct", demand(someone(somebody, accounts)), "no matching signatures")
		add("keyless-unknownct", ignoring(demand(someone(somebody, accounts)), false, true), "")
		add("keyless-other", demand(someone(somebody, accounts)), "no matching signatures")
		add("keyless-nolog", ignoring(demand(someone(somebody, accounts)), true, false), "no matching signatures")
		add("keyless-tsa", stamped(ignoring(demand(someone(somebody, accounts)), true, false)), "")
		add("keyless-log-tsa", demand(someone(somebody, accounts)), "")
		add("keyless-referrers", demand(someone(somebody, accounts)), "")
		add("keyless-two", demand(someone(somebody, accounts)), "")
		add("keyless-two", demand(someone("another@ephor.test", accounts)), "")
		add("keyless-two", noted(demand(someone(somebody, accounts)), "env", "dev"), "")
		add("keyless-two", noted(demand(someone(somebody, accounts)), "env", "prod"), "annotations") // one signature must satisfy everything
	}
	add("keyless-email", elsewhere(own(someone(somebody, accounts))), "no matching signatures")
	add("keyless-other", elsewhere(ignoring(someone(somebody, accounts), false, true)), "")

	add("bundle-key", realKey("p256"), "")
	add("bundle-key", realKey("p384"), "no matching signatures")
	add("bundle-key-annotated", noted(realKey("p256"), "env", "prod"), "")
	add("bundle-key-annotated", noted(realKey("p256"), "env", "dev"), "annotations")
	add("bundle-key-cosign2", realKey("p256"), "")
	add("bundle-key-log", logged(realKey("p256")), "")
	add("bundle-key-tsa", stamped(realKey("p256")), "")
	add("bundle-two-keys", realKey("p256"), "")
	add("bundle-two-keys", realKey("p384"), "")
	add("bundle-and-sig", realKey("p256"), "")
	add("bundle-and-sig", realKey("p384"), "")
	add("bundle-keyless", someone(somebody, accounts), "")
	add("bundle-keyless", someone("another@ephor.test", accounts), "subject mismatch")
	add("bundle-keyless-uri", someone(releaseOf, actions), "")
	add("bundle-keyless-uri", someone(releaseOf, accounts), "issuer mismatch")
	add("bundle-keyless-tsa", ignoring(someone(releaseOf, actions), true, false), "")
	add("bundle-keyless-nosan", someone("*", actions), "subject mismatch")
	add("bundle-keyless-nosct", someone(somebody, accounts), "no matching signatures")
	add("bundle-keyless-nosct", ignoring(someone(somebody, accounts), false, true), "")
	add("bundle-keyless-other", someone(somebody, accounts), "no matching signatures")

	v, _ := served(t, f.Registry(), 30*time.Second)
	// T21: what a signer attests about an image is no signature of it, except for type SigstoreBundle.
	for image, a := range map[string]*world.Attestor{"bundle-att": realKey("p256"), "bundle-att-two": realKey("p384"), "bundle-att-keyless": someone(releaseOf, actions)} {
		req := world.SignatureRequest{Image: f.Image(image).String(), Format: sigverify.Cosign, Attestor: a, Registry: world.ImageRequest{Insecure: true}}
		_, err := v.Verify(t.Context(), req)
		wants(t, err, "it is not a signature of the image, but an attestation of the type ")
		if _, found, err := v.Examine(t.Context(), req); err != nil || len(found) == 0 || found[0].Accepted || !strings.Contains(found[0].Reason, "not a signature of the image") {
			t.Errorf("%s: %+v, %v", image, found, err)
		}
		req.Format = sigverify.Bundle
		_, err = v.Verify(t.Context(), req)
		wants(t, err, "")
	}
	for _, r := range rows {
		formats := []string{sigverify.Cosign}
		if strings.HasPrefix(r.image, "bundle-") && !(r.image == "bundle-and-sig" && r.attestor.Key.PublicKey == f.Keys["p256"]) {
			formats = append(formats, sigverify.Bundle)
		}
		for _, format := range formats {
			img := f.Image(r.image)
			req := world.SignatureRequest{Image: img.String(), Format: format, Attestor: r.attestor, Registry: world.ImageRequest{Insecure: true}}
			digest, err := v.Verify(t.Context(), req)
			if r.want == "" {
				if err != nil || digest != img.Digest {
					t.Errorf("%s as %s (%s): digest %q, error %v", r.image, format, img.About, digest, err)
				}
				continue
			}
			var u *world.UnverifiedError
			if !errors.As(err, &u) {
				t.Errorf("%s as %s (%s): error %v, want that it is not verified: %s", r.image, format, img.About, err, r.want)
			} else if want := r.want; !strings.Contains(u.Reason, want) && !(format == sigverify.Bundle && want == "no matching signatures") {
				t.Errorf("%s as %s: %q, want %q", r.image, format, u.Reason, want)
			}
		}
	}
}

// TestSignaturesElsewhere reads the signatures of an image from another host.
func TestSignaturesElsewhere(t *testing.T) {
	f := fixture.Load()
	v, _ := served(t, f.Registry(), 30*time.Second)
	img := f.Image("key-elsewhere")
	req := world.SignatureRequest{
		Image: img.String(), Format: sigverify.Cosign, Attestor: realKey("p256"), Repository: "signatures.ephor.test/app", Registry: world.ImageRequest{Insecure: true},
	}
	if _, err := v.Verify(t.Context(), req); err != nil {
		t.Error(err)
	}
}

// TestAttestedArtefacts reads statements that cosign created.
func TestAttestedArtefacts(t *testing.T) {
	const (
		review      = "https://ephor.test/review/v1"
		provenance  = "https://slsa.dev/provenance/v0.2"
		provenance1 = "https://slsa.dev/provenance/v1"
		vuln        = "https://cosign.sigstore.dev/attestation/vuln/v1"
		custom      = "https://cosign.sigstore.dev/attestation/v1"
	)
	reviewed := func(v bool) func(any) bool {
		return func(p any) bool { m, _ := p.(map[string]any); return m["reviewed"] == v }
	}
	has := func(keys ...string) func(any) bool {
		return func(p any) bool {
			m, _ := p.(map[string]any)
			return !slices.ContainsFunc(keys, func(k string) bool { return m[k] == nil })
		}
	}
	f := fixture.Load()
	v, _ := served(t, f.Registry(), 30*time.Second)
	for _, c := range []struct {
		image    string
		kind     string
		attestor *world.Attestor
		count    int // -1: not verified
		check    func(any) bool
	}{
		{"att-provenance", provenance, realKey("p256"), 1, has("builder", "buildType")},
		{"att-provenance", review, realKey("p256"), 0, nil},
		{"att-provenance", provenance, realKey("p384"), -1, nil},
		{"att-vuln", vuln, realKey("p256"), 1, has("scanner", "metadata")},
		{"att-review", review, realKey("p256"), 1, reviewed(true)},
		{"att-custom", custom, realKey("p256"), 1, has("Data")},
		{"att-two-types", provenance, realKey("p256"), 1, has("builder")},
		{"att-two-types", provenance, realKey("p384"), -1, nil},
		{"att-two-types", review, realKey("p384"), 1, reviewed(true)},
		{"att-two-signers", review, realKey("p256"), 1, reviewed(true)},
		{"att-two-signers", review, realKey("p384"), 1, reviewed(false)},
		{"att-text", "https://spdx.dev/Document", realKey("p256"), 1, nil},
		{"att-log", review, logged(realKey("p256")), 1, reviewed(true)},
		{"att-log-intoto", review, logged(realKey("p256")), 1, reviewed(true)},
		{"att-keyless", provenance, someone(somebody, accounts), 1, has("builder")},
		{"att-keyless", provenance, someone("another@ephor.test", accounts), -1, nil},
		{"att-keyless-two", review, someone(somebody, accounts), 1, reviewed(true)},
		{"att-keyless-two", review, someone("another@ephor.test", accounts), 1, reviewed(false)},
		{"att-keyless-two", review, someone("*@ephor.test", accounts), 2, nil},
		{"bundle-att", review, realKey("p256"), 1, reviewed(true)},
		{"bundle-att", review, realKey("p384"), -1, nil},
		{"bundle-att-keyless", provenance1, someone(releaseOf, actions), 1, has("buildDefinition")},
		{"bundle-att-two", review, realKey("p256"), 1, reviewed(true)},
		{"bundle-att-two", review, realKey("p384"), 1, reviewed(false)},
		{"unsigned", review, realKey("p256"), -1, nil},
	} {
		img := f.Image(c.image)
		req := world.SignatureRequest{Image: img.String(), Format: sigverify.Cosign, Type: c.kind, Attestor: c.attestor, Registry: world.ImageRequest{Insecure: true}}
		_, statements, err := v.Statements(t.Context(), req)
		var u *world.UnverifiedError
		switch {
		case c.count < 0:
			if !errors.As(err, &u) {
				t.Errorf("%s, %s: %d statements, error %v", c.image, c.kind, len(statements), err)
			}
		case err != nil || len(statements) != c.count:
			t.Errorf("%s, %s: %d statements, want %d; error %v", c.image, c.kind, len(statements), c.count, err)
		case c.check != nil && !c.check(statements[0].Predicate):
			t.Errorf("%s, %s: the predicate is %v", c.image, c.kind, statements[0].Predicate)
		}
	}
}

// TestReferrerShapes reads bundles from registries that answer queries for referrers in different ways.
func TestReferrerShapes(t *testing.T) {
	f := fixture.Load()
	for name, mode := range map[string]fixture.Referrers{"whole": fixture.ReferrersWhole, "raw": fixture.ReferrersRaw, "tag": fixture.ReferrersTag} {
		r := f.Registry()
		r.Referrers = mode
		v, _ := served(t, r, 30*time.Second)
		for image, a := range map[string]*world.Attestor{"bundle-key": realKey("p256"), "bundle-key-cosign2": realKey("p256"), "bundle-keyless": someone(somebody, accounts), "key-referrers": realKey("p256")} {
			req := world.SignatureRequest{Image: f.Image(image).String(), Format: sigverify.Cosign, Attestor: a, Registry: world.ImageRequest{Insecure: true}}
			if _, err := v.Verify(t.Context(), req); err != nil {
				t.Errorf("%s, %s: %v", name, image, err)
			}
		}
	}
	r := f.Registry()
	r.Referrers = fixture.ReferrersNone
	v, _ := served(t, r, 30*time.Second)
	var u *world.UnverifiedError
	if _, err := v.Verify(t.Context(), world.SignatureRequest{Image: f.Image("bundle-key").String(), Format: sigverify.Cosign, Attestor: realKey("p256"), Registry: world.ImageRequest{Insecure: true}}); !errors.As(err, &u) {
		t.Errorf("without referrers: %v", err)
	}
}

// TestArtefactRequests checks how many registry requests a verification needs, not counting logins.
func TestArtefactRequests(t *testing.T) {
	f := fixture.Load()
	for _, c := range []struct {
		name     string
		image    string
		attestor *world.Attestor
		format   string
		max      int
	}{
		{"key, by digest", f.Image("key-p256").String(), realKey("p256"), sigverify.Cosign, 2}, // plus one for the payload if it cannot be predicted
		{"key, by tag", f.Image("key-p256").Tagged(), realKey("p256"), sigverify.Cosign, 3},
		{"bundle", f.Image("bundle-keyless").String(), someone(somebody, accounts), sigverify.Bundle, 4},
	} {
		v, server := served(t, f.Registry(), 30*time.Second)
		req := world.SignatureRequest{Image: c.image, Format: c.format, Attestor: c.attestor, Registry: world.ImageRequest{Insecure: true}}
		if _, err := v.Verify(t.Context(), req); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		// The list of referrers is requested in parallel with the tag, and the request may still be running when the tag satisfied the attestor.
		asides := func(r string) bool {
			return strings.HasSuffix(r, "/v2/") || strings.Contains(r, "/referrers/") && c.format == sigverify.Cosign
		}
		asked := slices.DeleteFunc(server.Requests(), asides)
		if len(asked) > c.max {
			t.Errorf("%s: %d requests, want at most %d:\n%s", c.name, len(asked), c.max, strings.Join(asked, "\n"))
		}
		server.Reset()
		if _, err := v.Verify(t.Context(), req); err != nil {
			t.Errorf("%s, again: %v", c.name, err)
		}
		if again := slices.DeleteFunc(server.Requests(), asides); len(again) > 1 {
			t.Errorf("%s, again: %q", c.name, again)
		}
	}
}

// TestFaults verifies an image in spite of faults of the registry, or detects in limited time that it cannot.
func TestFaults(t *testing.T) {
	f := fixture.Load()
	img := f.Image("annotated") // its payload must be read
	for _, fault := range fixture.Faults() {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			timeout := 2 * time.Minute
			if fault.Slow {
				timeout = 2 * time.Second
			}
			v, server := served(t, fault.Wrap(f.Registry()), timeout)
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			start := time.Now()
			_, err := v.Verify(ctx, world.SignatureRequest{Image: img.Tagged(), Format: sigverify.Cosign, Attestor: realKey("p256"), Registry: world.ImageRequest{Insecure: true}})
			took := time.Since(start)
			var u *world.UnverifiedError
			got := fixture.WantError
			switch {
			case err == nil:
				got = fixture.WantVerified
			case errors.As(err, &u):
				got = fixture.WantUnverified
			}
			if got != fault.Want {
				t.Errorf("%s after %s, want %s: %v\n%s", got, took, fault.Want, err, strings.Join(server.Requests(), "\n"))
			}
			if took > timeout+time.Minute {
				t.Errorf("it took %s, at most %s were allowed", took, timeout)
			}
			if n := len(server.Requests()); n > 70 {
				t.Errorf("it took %d requests", n)
			}
			if err != nil && (strings.Contains(err.Error(), "good") && strings.Contains(err.Error(), "Bearer")) {
				t.Errorf("the error names a token: %v", err)
			}
			if strings.Contains(strings.Join(server.Dialled(), " "), fixture.Blocked) {
				t.Logf("the dialler was asked for %s: it has to refuse", fixture.Blocked)
			}
		})
	}
}

// newNotary returns a verifier of Notary signatures that sends no requests.
func newNotary(t testing.TB) sigverify.NotaryVerifier {
	t.Helper()
	v, err := notary.New(notary.Options{HTTP: noLog{}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestArtefactsOfNotation verifies images that notation signed.
func TestArtefactsOfNotation(t *testing.T) {
	f := fixture.Load()
	v, _ := served(t, f.Registry(), 30*time.Second)
	by := func(name string) *world.Attestor {
		return &world.Attestor{Certificate: &world.CertificateAttestor{Certificate: f.Certificates[name]}}
	}
	for _, c := range []struct {
		image, certificate string
		ok                 bool
	}{
		{"notary-jws", "notary", true}, {"notary-cose", "notary", true}, {"notary-jws", "notary-other", false}, {"notary-cose", "notary-other", false},
		{"notary-chain-jws", "notary-chain", true}, {"notary-chain-cose", "notary-chain", true}, {"notary-chain-jws", "notary", false},
		{"notary-other", "notary", false}, {"notary-other", "notary-other", true},
		{"notary-two", "notary", true}, {"notary-two", "notary-other", true}, {"notary-two", "notary-chain", false},
		{"unsigned", "notary", false}, {"key-p256", "notary", false},
	} {
		img := f.Image(c.image)
		_, err := v.Verify(t.Context(), world.SignatureRequest{Image: img.String(), Format: sigverify.Notary, Attestor: by(c.certificate), Registry: world.ImageRequest{Insecure: true}})
		var u *world.UnverifiedError
		if c.ok && err != nil || !c.ok && !errors.As(err, &u) {
			t.Errorf("%s by %s: %v", c.image, c.certificate, err)
		}
	}
	for _, c := range []struct {
		image, certificate string
		count              int
	}{
		{"notary-sbom", "notary", 1}, {"notary-sbom", "notary-other", 0}, {"notary-sbom-unsigned", "notary", 0},
		{"notary-sbom-other", "notary", 0}, {"notary-sbom-other", "notary-other", 1}, {"notary-sbom-second", "notary", 1},
	} {
		img := f.Image(c.image)
		_, found, err := v.Statements(t.Context(), world.SignatureRequest{
			Image: img.String(), Format: sigverify.Notary, Type: "sbom/cyclone-dx", Attestor: by(c.certificate), Registry: world.ImageRequest{Insecure: true},
		})
		var u *world.UnverifiedError
		if len(found) != c.count || err != nil && !errors.As(err, &u) || c.count > 0 && err != nil {
			t.Errorf("%s by %s: %d documents, want %d; error %v", c.image, c.certificate, len(found), c.count, err)
		}
	}
}

// TestEnvelopes verifies notation's envelopes as files.
func TestEnvelopes(t *testing.T) {
	f := fixture.Load()
	r := f.Registry()
	v, server := served(t, r, 30*time.Second)
	by := func(name string) *world.Attestor {
		return &world.Attestor{Certificate: &world.CertificateAttestor{Certificate: f.Certificates[name]}}
	}
	for _, name := range []string{"notary-jws", "notary-cose", "notary-chain-jws", "notary-chain-cose"} {
		img, trusted := f.Image(name), "notary"
		if strings.Contains(name, "chain") {
			trusted = "notary-chain"
		}
		var envelope []byte
		for _, d := range r.ReferrersOf(img.Repository, img.Digest) {
			m, _ := r.Manifest(img.Repository, d.Digest)
			envelope = r.Blob(m.Layers[0].Digest)
		}
		manifest := string(r.Blob(img.Digest))
		broken := slices.Clone(envelope)
		broken[len(broken)/2]++
		for what, c := range map[string]struct {
			envelope []byte
			of       sigverify.File
			by       *world.Attestor
			want     string
		}{
			"the manifest":        {envelope, fileOf(manifest), by(trusted), ""},
			"its digest":          {envelope, digestOf(manifest), by(trusted), ""},
			"another manifest":    {envelope, fileOf(manifest + " "), by(trusted), "the signature is for sha256:"},
			"another certificate": {envelope, fileOf(manifest), by("notary-other"), "does not contain any trusted certificate"},
			"a broken envelope":   {broken, fileOf(manifest), by(trusted), " "},
			"no envelope":         {[]byte("hello"), fileOf(manifest), by(trusted), " "},
		} {
			opened, err := notary.Open(c.envelope)
			var found sigverify.Finding
			if err == nil {
				found, err = v.ExamineEnvelope(t.Context(), opened, c.of, c.by)
			} else {
				found.Reason, err = err.Error(), nil
			}
			if err != nil || found.Accepted != (c.want == "") || !strings.Contains(found.Reason, c.want) {
				t.Errorf("%s, %s: %+v, error %v", name, what, found, err)
			}
		}
	}
	if asked := server.Requests(); len(asked) > 0 {
		t.Errorf("the registry was asked %q", asked)
	}
}
