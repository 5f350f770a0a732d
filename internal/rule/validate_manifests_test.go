package rule_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/root"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/sigverify/keys"
	"ephor.invalid/ephor/internal/world"
)

// manifestVerifier is the real verifier, without a network.
func manifestVerifier(t *testing.T) world.Signatures {
	t.Helper()
	images, err := registry.New(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := sigverify.New(sigverify.Options{
		Registry: images, Keys: keys.New(keys.Options{HTTP: nowhere{}, Operator: nowhere{}}), Trust: nowhere{}, HTTP: nowhere{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// nowhere is a network without services.
type nowhere struct{}

func (nowhere) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, errors.New(r.URL.Host + " is out of reach")
}

func (nowhere) Material(context.Context, world.Trust) (root.TrustedMaterial, error) {
	return nil, errors.New("the trust is out of reach")
}

// witness records the queries that it receives, and reports that there is a signature.
type witness struct {
	world.Signatures
	asked []world.BlobRequest
}

func (w *witness) Blob(_ context.Context, r world.BlobRequest) (string, error) {
	w.asked = append(w.asked, r)
	return "signer", nil
}

// The verifier receives the content of the annotations. A key needs a log entry only if the rule names the log; an identity always needs
// one.
func TestManifestRequests(t *testing.T) {
	pack := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return base64.StdEncoding.EncodeToString(b.Bytes())
	}
	r := compileRule(t, []byte(`
name: signed
match: {any: [{resources: {kinds: [ConfigMap]}}]}
validate:
  manifests:
    attestors:
    - entries:
      - keys: {kms: "hashivault://one"}
      - keys: {kms: "hashivault://two", rekor: {url: "https://rekor.example"}}
      - keys: {kms: "hashivault://three", rekor: {url: "https://rekor.example", ignoreTlog: true}}
      - certificates: {certChain: chain}
      - keyless: {issuer: i, subject: s, rekor: {url: "https://rekor.example"}}
`), nil)
	w := &witness{}
	c := call(request(map[string]any{"object": map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "annotations": map[string]any{
			"cosign.sigstore.dev/message":     pack("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"),
			"cosign.sigstore.dev/signature":   base64.StdEncoding.EncodeToString([]byte("signature")),
			"cosign.sigstore.dev/certificate": pack("certificate"), "cosign.sigstore.dev/bundle": pack("entry"),
		}},
	}}), r)
	c.Env.World.Signatures = w
	if y := r.Eval(c); y.Status != policy.StatusPass || !strings.Contains(y.Message, "verifiedCount 5; requiredCount 5") {
		t.Fatalf("%s: %s", y.Status, y.Message)
	}
	for i, ignores := range []bool{true, false, true, false, false} {
		asked := w.asked[i]
		if asked.Attestor.Rekor.Ignore != ignores {
			t.Errorf("entry %d: the log is ignored: %t", i, asked.Attestor.Rekor.Ignore)
		}
		if s := asked.Signatures; !strings.HasPrefix(string(asked.Content), "{apiVersion: v1") || len(s) != 1 || string(s[0].Signature) != "signature" || s[0].Certificate != "certificate" || string(s[0].LogEntry) != "entry" {
			t.Errorf("entry %d: asked for %+v", i, asked)
		}
	}
	c.Env.World.Signatures = nil
	if y := r.Eval(c); y.Status != policy.StatusError || !strings.Contains(y.Message, "signatures of manifests are not available here") {
		t.Errorf("without a verifier: %s: %s", y.Status, y.Message)
	}
}
