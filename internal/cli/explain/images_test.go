package explain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/sigverify/fixture"
	"ephor.invalid/ephor/internal/sigverify/keys"
	"ephor.invalid/ephor/internal/sigverify/notary"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/fixed"
)

// fixtureTrust is the trusted root of the fixture.
type fixtureTrust struct{}

func (fixtureTrust) Material(context.Context, world.Trust) (root.TrustedMaterial, error) {
	return root.NewTrustedRootFromJSON(fixture.Load().Trust.TrustedRoot)
}

// fixtureVerifier returns a verifier for the images that a handler serves.
func fixtureVerifier(t *testing.T, handler http.Handler) world.Signatures {
	t.Helper()
	server := fixture.Start(t, handler)
	client, err := registry.New(registry.Options{Dial: server.Dial, Insecure: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	envelopes, err := notary.New(notary.Options{SkipRevocation: true})
	if err != nil {
		t.Fatal(err)
	}
	v, err := sigverify.New(sigverify.Options{
		Registry: client, Keys: keys.New(keys.Options{}), Trust: fixtureTrust{}, Notary: envelopes, HTTP: nowhere{},
		Now: func() time.Time { return fixture.Load().Made.Add(time.Minute) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// nowhere is a network without services.
type nowhere struct{}

func (nowhere) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, errors.New(r.URL.Host + " is not reachable")
}

// fingerprintOf returns the fingerprint of a key in the fixture.
func fingerprintOf(t *testing.T, name string) string {
	t.Helper()
	key, err := keys.New(keys.Options{}).Key(t.Context(), &world.KeyAttestor{PublicKey: fixture.Load().Keys[name]}, false)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// explained returns the explanation of one policy for one image, as text and as facts.
func explained(t *testing.T, signatures world.Signatures, body, image string) (string, []explanation) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	found, diags := loadLocated(nil, []string{file}, nil, false)
	if diags.HasErrors() || len(found) != 1 {
		t.Fatalf("%d policies: %v", len(found), diags)
	}
	p := found[0].program
	e := offline.New([]*policy.Program{p}, fixed.New(fixed.Values{Signatures: signatures}), nil)
	pod := map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}},
	}
	all, err := explain(t.Context(), e, found[0], p, pod, "", &load.Unevaluated{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for i := range all {
		all[i].print(&out)
	}
	return out.String(), all
}

// For a rule about signatures, the explanation lists the signatures that were found, with their signers, and why each does not satisfy the
// attestor.
func TestExplainImages(t *testing.T) {
	f := fixture.Load()
	indent := func(text string, n int) string {
		return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+strings.Repeat(" ", n))
	}
	classic := func(image, attestors string) string {
		return fmt.Sprintf(`apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: signed}
spec:
  rules:
  - name: signed
    match: {any: [{resources: {kinds: [Pod]}}]}
    verifyImages:
    - imageReferences: [%q]
      failureAction: Enforce
      mutateDigest: false
      verifyDigest: false
      attestors:
      - entries:
        - %s
`, f.Image(image).Repository+"*", attestors)
	}
	key := func(name string) string {
		return "keys:\n            rekor: {ignoreTlog: true, url: https://rekor.invalid}\n            ctlog: {ignoreSCT: true}\n            publicKeys: |-\n              " + indent(f.Keys[name], 14)
	}
	cel := func(image, name string) string {
		return fmt.Sprintf(`apiVersion: policies.kyverno.io/v1
kind: ImageValidatingPolicy
metadata: {name: signed}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchImageReferences: [{glob: %q}]
  validationConfigurations: {mutateDigest: false, verifyDigest: false, required: false}
  attestors:
  - name: team
    cosign:
      key:
        data: |-
          %s
      ctlog: {insecureIgnoreTlog: true, insecureIgnoreSCT: true}
  validations:
  - expression: images.containers.map(i, verifyImageSignatures(i, [attestors.team])).all(n, n > 0)
    message: not signed
`, f.Image(image).Repository+"*", indent(f.Keys[name], 10))
	}
	pass, fail := policy.StatusPass.String(), policy.StatusFail.String()
	for _, c := range []struct {
		name, image, policy, verdict string
		want                         []string
	}{
		{"another key", "two-keys", classic("two-keys", key("stranger")), fail, []string{
			"decided by: " + f.Image("two-keys").Tagged() + "@" + f.Image("two-keys").Digest + ": 2 signatures found, by a key without a name; neither satisfies .attestors[0].entries[0].keys (the key " +
				fingerprintOf(t, "stranger") + ")",
			"layer 0: invalid signature", "layer 1: invalid signature",
			"to pass: use an image that is signed by the key " + fingerprintOf(t, "stranger"),
		}},
		{"a logged key is named", "key-log-second", classic("key-log-second", key("p256")), fail, []string{
			"1 signature found, by the key " + fingerprintOf(t, "second") + "; it does not satisfy .attestors[0].entries[0].keys (the key " + fingerprintOf(t, "p256") + ")",
		}},
		{"no signature", "unsigned", classic("unsigned", key("p256")), fail, []string{"no signatures found for .attestors[0].entries[0].keys (the key "}},
		{"signed", "key-p256", classic("key-p256", key("p256")), pass, []string{"✓ signature sha256-", "by the key " + fingerprintOf(t, "p256")}},
		{"a bundle", "bundle-key", classic("bundle-key", key("stranger")), fail, []string{"1 signature found, by the key " + fingerprintOf(t, "p256"), "bundle sha256:"}},
		{"another identity", "keyless-email", classic("keyless-email", "keyless: {subject: other@ephor.test, issuer: https://accounts.ephor.test, rekor: {url: https://rekor.invalid}}"), fail, []string{
			"1 signature found, by someone@ephor.test of the issuer https://accounts.ephor.test; it does not satisfy .attestors[0].entries[0].keyless (other@ephor.test of the issuer https://accounts.ephor.test): subject mismatch: expected other@ephor.test, received someone@ephor.test",
		}},
		{"two others", "keyless-two", classic("keyless-two", "keyless: {subject: other@ephor.test, issuer: https://accounts.ephor.test, rekor: {url: https://rekor.invalid}}"), fail, []string{
			"2 signatures found, by someone@ephor.test of the issuer https://accounts.ephor.test and another@ephor.test of the issuer https://accounts.ephor.test; neither satisfies .attestors[0].entries[0].keyless",
		}},
		{"Notary", "notary-two", strings.Replace(classic("notary-two", "certificates:\n            cert: |-\n              "+indent(f.Certificates["notary-brief"], 14)), "    - imageReferences", "    - type: Notary\n      imageReferences", 1), fail, []string{
			"2 signatures found, by CN=", "neither satisfies .attestors[0].entries[0] (the certificate CN=",
		}},
		{"a statement by others", "att-two-signers", strings.Replace(classic("att-two-signers", strings.ReplaceAll(key("stranger"), "\n", "\n  ")), "      attestors:\n      - entries:\n        - ", "      attestations:\n      - type: https://ephor.test/review/v1\n        attestors:\n        - entries:\n          - ", 1), fail, []string{
			"2 statements https://ephor.test/review/v1 found, by a key without a name; neither satisfies .attestations[0].attestors[0].entries[0].keys",
		}},
		{"CEL, another key", "two-keys", cel("two-keys", "stranger"), fail, []string{"2 signatures found, by a key without a name; neither satisfies attestors.team (the key " + fingerprintOf(t, "stranger") + ")"}},
		{"CEL, signed", "key-p256", cel("key-p256", "p256"), pass, []string{"✓ " + f.Image("key-p256").Tagged() + "@", "attestors.team: the key " + fingerprintOf(t, "p256")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, all := explained(t, fixtureVerifier(t, f.Registry()), c.policy, f.Image(c.image).Tagged())
			x := &all[0]
			if x.Verdict != c.verdict {
				t.Errorf("the verdict is %s", x.Verdict)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("it lacks %q", want)
				}
			}
			if len(x.Notes.Attestors) == 0 || x.Notes.Attestors[0].Holds != (c.verdict == pass) || c.image != "unsigned" && len(x.Notes.Attestors[0].Found) == 0 {
				t.Errorf("the facts are %+v", x.Notes.Attestors)
			}
			facts, err := json.Marshal(x.facts())
			if err != nil || !strings.Contains(string(facts), `"attestors":[{"`) {
				t.Errorf("the facts are %s, %v", facts, err)
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

// A registry that does not answer is not reported as an image without signatures.
func TestExplainOutage(t *testing.T) {
	f := fixture.Load()
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	text, all := explained(t, fixtureVerifier(t, down), strings.NewReplacer("IMAGE", f.Image("key-p256").Repository, "KEY", strings.ReplaceAll(strings.TrimSpace(f.Keys["p256"]), "\n", "\n              ")).Replace(`apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: signed}
spec:
  rules:
  - name: signed
    match: {any: [{resources: {kinds: [Pod]}}]}
    verifyImages:
    - imageReferences: ["IMAGE*"]
      failureAction: Enforce
      attestors:
      - entries:
        - keys:
            rekor: {ignoreTlog: true, url: https://rekor.invalid}
            ctlog: {ignoreSCT: true}
            publicKeys: |-
              KEY
`), f.Image("key-p256").String())
	if x := all[0]; x.Verdict != policy.StatusError.String() || !x.Notes.Attestors[0].Unknown {
		t.Errorf("%s: %+v", x.Verdict, x.Notes.Attestors)
	}
	if want := "it could not be determined whether there is a signature for .attestors[0].entries[0].keys"; !strings.Contains(text, want) {
		t.Errorf("it lacks %q:\n%s", want, text)
	}
}

// The policies in the guide decide as it describes, for images in the fixture. Names, keys and identities are replaced by those of the
// fixture.
func TestImagesGuide(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "policies", "images.md"))
	if err != nil {
		t.Fatal(err)
	}
	f := fixture.Load()
	for i := range f.Images {
		if im := f.Images[i]; im.Repository != "registry.ephor.test/app" && strings.HasPrefix(i, "att-") {
			t.Fatalf("%s is in another repository: %s", i, im.Repository)
		}
	}
	const demo = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEFfZFVAb94xYJV5myhHmC5vIhbDzo\nPghZDonArbylW5AvFinV5hTAqX0KmVDhdnSy0+zNSrGcRG65CFVHD1EWxg==\n-----END PUBLIC KEY-----"
	words := []string{
		"ghcr.io/team/*", "registry.ephor.test/*", "release@example.com", "someone@ephor.test", "https://accounts.example.com", "https://accounts.ephor.test",
		"https://github.com/team/app/", "https://github.com/ephor-test/app/", "https://example.com/review/v1", "https://ephor.test/review/v1",
	}
	for n := range 20 { // the key may have any indentation
		between := "\n" + strings.Repeat(" ", n)
		words = append(words, strings.ReplaceAll(demo, "\n", between), strings.ReplaceAll(strings.TrimSpace(f.Keys["p256"]), "\n", between))
	}
	replacer := strings.NewReplacer(words...)
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	pass, fail, broken := policy.StatusPass.String(), policy.StatusFail.String(), policy.StatusError.String()
	want := map[string]map[string]string{
		"signed-by-key":           {"key-p256": pass, "unsigned": fail, "key-p384": fail, "down": broken},
		"signed-by-identity":      {"keyless-email": pass, "keyless-uri": pass, "keyless-other": fail, "unsigned": fail},
		"reviewed":                {"att-review": pass, "bundle-att": pass, "att-two-signers": pass, "unsigned": fail, "att-vuln": fail},
		"signed-and-reviewed":     {"att-review": pass, "bundle-att": pass, "unsigned": fail, "att-vuln": fail, "down": broken},
		"signed-or-registry-down": {"key-p256": pass, "unsigned": fail, "down": broken},
	}
	seen := 0
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		name := regexp.MustCompile(`(?m)^  name: (\S+)$`).FindStringSubmatch(block[1])
		if !regexp.MustCompile(`(?m)^kind: (ClusterPolicy|ImageValidatingPolicy)$`).MatchString(block[1]) {
			continue
		}
		if name == nil || want[name[1]] == nil {
			t.Errorf("no image is evaluated by this policy of the guide:\n%s", block[1])
			continue
		}
		seen++
		for image, verdict := range want[name[1]] {
			t.Run(name[1]+"/"+image, func(t *testing.T) {
				var registry http.Handler = f.Registry()
				named := f.Image("key-p256")
				if image == "down" {
					registry = down
				} else {
					named = f.Image(image)
				}
				text, all := explained(t, fixtureVerifier(t, registry), replacer.Replace(block[1]), named.String())
				if got := all[0].Verdict; got != verdict {
					t.Errorf("%s, want %s:\n%s", got, verdict, text)
				}
			})
		}
	}
	if seen != len(want) {
		t.Errorf("%d policies were found, want %d", seen, len(want))
	}
}
