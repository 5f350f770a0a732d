package rule_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Digests of the fake registry.
const (
	digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	digestB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// notary is a fake registry with the signers and statements of images. Every key signs, except bad. The key down cannot be
// verified, and other signed a different image.
type notary struct {
	asked      []string
	statements []world.Statement
}

func (n *notary) Verify(_ context.Context, r world.SignatureRequest) (string, error) {
	who := signer(r.Attestor)
	n.asked = append(n.asked, who+"@"+r.Image)
	return n.answer(who)
}

func (n *notary) answer(who string) (string, error) {
	switch who {
	case "bad":
		return "", &world.UnverifiedError{Reason: "no matching signatures found"}
	case "down":
		return "", errors.New("connection refused")
	case "other":
		return digestB, nil
	}
	return digestA, nil
}

func (n *notary) Statements(_ context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	who := signer(r.Attestor)
	n.asked = append(n.asked, who+"@"+r.Image+" "+r.Type)
	digest, err := n.answer(who)
	return digest, n.statements, err
}

func (n *notary) Image(_ context.Context, r world.ImageRequest) (map[string]any, error) {
	n.asked = append(n.asked, "digest of "+r.Reference)
	if strings.Contains(r.Reference, "missing") {
		return nil, errors.New("not found")
	}
	return map[string]any{"resolvedImage": strings.SplitN(r.Reference, ":", 2)[0] + "@" + digestA}, nil
}

func signer(a *world.Attestor) string {
	switch {
	case a == nil:
		return "anybody"
	case a.Key != nil:
		return a.Key.PublicKey + a.Key.KMS + a.Key.SecretNamespace + a.Key.SecretName
	case a.Certificate != nil:
		return a.Certificate.Certificate
	}
	return a.Keyless.Subject
}

// sealer seals with a sum without a key.
type sealer struct{ down bool }

func (s sealer) Seal(_ context.Context, domain string, parts ...string) (string, error) {
	if s.down {
		return "", errors.New("no keys")
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %q", domain, parts))), nil
}

func (s sealer) Sealed(ctx context.Context, text, domain string, parts ...string) (bool, error) {
	want, err := s.Seal(ctx, domain, parts...)
	return text == want, err
}

// key returns an entry of a set of attestors.
func key(name string) string { return "{keys: {publicKeys: " + name + "}}" }

func verifyRule(fields string) string {
	return "name: r\nmatch: {any: [{resources: {kinds: [Pod]}}]}\nverifyImages:\n- imageReferences: ['ghcr.io/*']\n  failureAction: Enforce\n" + fields
}

func verifyScope(t *testing.T, r *policy.Rule, n *notary, req *policy.Request, stages policy.Stage) *policy.Call {
	s := call(req, r)
	s.Env.World = world.World{Signatures: n, Images: world.Images{Image: n.Image}, Seals: sealer{}}
	s.Stages = stages
	return s
}

func pod(annotations map[string]any, images ...string) map[string]any {
	containers := make([]any, len(images))
	for i, image := range images {
		containers[i] = map[string]any{"name": fmt.Sprintf("c%d", i), "image": image}
	}
	metadata := map[string]any{"name": "p", "namespace": "d"}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": map[string]any{"containers": containers}}
}

func texts(y policy.Yield) string {
	if y.Status == policy.StatusNone {
		return "no result"
	}
	var out []string
	for _, one := range append([]policy.Yield{y}, y.Also...) {
		out = append(out, one.Status.String()+": "+one.Message)
	}
	return strings.Join(out, " | ")
}

// A variable that makes a text of an attestor empty is an error: an empty subject would stand for every subject, and an empty root for the
// public ones. An empty repository is that of the image.
func TestEmptyVariablesOfAttestors(t *testing.T) {
	const variable = `"{{ request.object.metadata.annotations.x || '' }}"`
	for entry, path := range map[string]string{
		"{keys: {publicKeys: " + variable + "}}":                                                                ".attestors[0].entries[0].keys.publicKeys",
		"{keys: {publicKeys: a, rekor: {url: 'https://rekor', pubkey: " + variable + "}}}":                      ".attestors[0].entries[0].keys.rekor.pubkey",
		"{keyless: {issuer: i, subject: " + variable + ", rekor: {url: 'https://rekor'}}}":                      ".attestors[0].entries[0].keyless.subject",
		"{keyless: {issuer: i, subject: s, roots: " + variable + "}}":                                           ".attestors[0].entries[0].keyless.roots",
		"{certificates: {cert: " + variable + ", certChain: c}}":                                                ".attestors[0].entries[0].certificates.cert",
		"{attestor: {entries: [{keyless: {issuer: " + variable + ", subject: s, rekor: {url: 'https://r'}}}]}}": ".attestors[0].entries[0].attestor.entries[0].keyless.issuer",
		"{keys: {publicKeys: a}, repository: " + variable + "}":                                                 "",
	} {
		r := compileRule(t, []byte(verifyRule("  attestors: [{entries: ["+entry+"]}]\n")), nil)
		for _, given := range []string{"", "k"} {
			req := request(map[string]any{"object": pod(map[string]any{"x": given}, "ghcr.io/x:1")})
			got, want := texts(r.Eval(verifyScope(t, r, &notary{}, req, policy.StageVerifyImages))), "error: variable substitution failed: "+path+" is empty"
			if fails := given == "" && path != ""; fails != (got == want) || !fails && !strings.HasPrefix(got, "pass: ") {
				t.Errorf("%s, %q: %s", entry, given, got)
			}
		}
	}
}

// TestAttestorSets tests the logic of attestor sets.
func TestAttestorSets(t *testing.T) {
	const path = ".attestors[0].entries"
	bad := func(i int) string { return fmt.Sprintf("%s[%d].keys: no matching signatures found", path, i) }
	const verified = "pass: verified image signatures for ghcr.io/x:1"
	const failed = "fail: failed to verify image ghcr.io/x:1: "
	pem := "|\n            -----BEGIN PUBLIC KEY-----\n            YQ==\n            -----END PUBLIC KEY-----\n            -----BEGIN PUBLIC KEY-----\n            Yg==\n            -----END PUBLIC KEY-----\n"
	for _, c := range []struct {
		name, attestors string // each line is a set
		want            string
		asked           int
	}{
		{"one", "entries: [" + key("a") + "]", verified, 1},
		{"all of two", "entries: [" + key("a") + ", " + key("b") + "]", verified, 2},
		{"one of two is bad", "entries: [" + key("bad") + ", " + key("b") + "]", failed + bad(0), 2},
		{"both are bad", "entries: [" + key("bad") + ", " + key("bad") + "]", failed + bad(0) + "; " + bad(1), 2},
		{"one is enough", "count: 1, entries: [" + key("bad") + ", " + key("b") + ", " + key("c") + "]", verified, 2},
		{"two are enough", "count: 2, entries: [" + key("a") + ", " + key("bad") + ", " + key("c") + ", " + key("d") + "]", verified, 3},
		{"two are not there", "count: 2, entries: [" + key("bad") + ", " + key("bad") + ", " + key("c") + "]", failed + bad(0) + "; " + bad(1), 3},
		{"unreachable", "entries: [" + key("down") + "]", "error: failed to verify image ghcr.io/x:1: " + path + "[0].keys: connection refused", 1},
		{"unreachable, but not needed", "count: 1, entries: [" + key("down") + ", " + key("b") + "]", verified, 2},
		{"two sets", "entries: [" + key("a") + "]\nentries: [" + key("b") + "]", verified, 2},
		{"the second set fails", "entries: [" + key("a") + "]\nentries: [" + key("bad") + "]", failed + ".attestors[1].entries[0].keys: no matching signatures found", 2},
		{"nested", "count: 2, entries: [{attestor: {count: 1, entries: [" + key("bad") + ", " + key("b") + "]}}, " + key("c") + "]", verified, 3},
		{"nested and bad", "entries: [{attestor: {entries: [" + key("a") + ", " + key("bad") + "]}}, " + key("c") + "]",
			failed + ".attestors[0].entries[0].attestor.entries[1].keys: no matching signatures found", 3},
		{"another kind", "entries: [{certificates: {cert: bad}}, {keyless: {subject: bad, issuer: i, roots: r}}]",
			failed + ".attestors[0].entries[0].certificates: no matching signatures found; .attestors[0].entries[1].keyless: no matching signatures found", 2},
		{"signed another image", "entries: [" + key("a") + ", " + key("other") + "]",
			failed + path + "[1].keys: digest mismatch: expected " + digestA + ", received " + digestB, 2},
		{"several keys in one text", "entries: [{keys: {publicKeys: \"{{ keys }}\"}}]", verified, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			context := ""
			if strings.Contains(c.attestors, "{{ keys }}") {
				context = "context:\n- name: keys\n  variable:\n    value: " + pem
			}
			sets := "  attestors:\n"
			for _, set := range strings.Split(c.attestors, "\n") {
				sets += "  - {" + set + "}\n"
			}
			n := &notary{}
			r := compileRule(t, []byte(context+verifyRule(sets)), nil)
			req := request(map[string]any{"object": pod(nil, "ghcr.io/x:1")})
			y := r.Eval(verifyScope(t, r, n, req, policy.StageVerifyImages))
			if got := texts(y); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if !r.VerifiesImages {
				t.Error("the rule does not say that it verifies images, so an error denies under Audit, too")
			}
			if len(n.asked) != c.asked+1 { // plus one lookup of the tag
				t.Errorf("asked %v, want %d", n.asked, c.asked+1)
			}
		})
	}
}

// TestVerifyThenRequire evaluates both stages for an object: the record of the first one satisfies the second.
func TestVerifyThenRequire(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		images       []string
		verify       string
		images2      []string // after the first stage; nil if unchanged
		require      string
	}{
		{"signed", "  attestors: [{entries: [" + key("a") + "]}]\n", []string{"ghcr.io/x:1"},
			"pass: verified image signatures for ghcr.io/x:1", []string{"ghcr.io/x:1@" + digestA}, "pass: image verified"},
		{"two images", "  attestors: [{entries: [" + key("a") + "]}]\n", []string{"ghcr.io/x", "docker.io/y", "ghcr.io/z@" + digestA},
			"pass: verified image signatures for ghcr.io/x:latest | pass: verified image signatures for ghcr.io/z@" + digestA,
			[]string{"ghcr.io/x:latest@" + digestA, "docker.io/y", "ghcr.io/z@" + digestA}, "pass: image verified"},
		{"the same image twice", "  attestors: [{entries: [" + key("a") + "]}]\n", []string{"ghcr.io/x:1", "ghcr.io/x:1"},
			"pass: verified image signatures for ghcr.io/x:1", []string{"ghcr.io/x:1@" + digestA, "ghcr.io/x:1@" + digestA}, "pass: image verified"},
		{"unsigned", "  attestors: [{entries: [" + key("bad") + "]}]\n", []string{"ghcr.io/x@" + digestA},
			"fail: failed to verify image ghcr.io/x@" + digestA + ": .attestors[0].entries[0].keys: no matching signatures found", nil, "fail: unverified image ghcr.io/x@" + digestA},
		{"another digest than the signed one", "  attestors: [{entries: [" + key("a") + "]}]\n", []string{"ghcr.io/x:1@" + digestB},
			"fail: failed to verify image ghcr.io/x@" + digestB + ": .attestors[0].entries[0].keys: digest mismatch: expected " + digestB + ", received " + digestA,
			nil, "fail: unverified image ghcr.io/x@" + digestB},
		{"tags stay", "  mutateDigest: false\n  verifyDigest: false\n  attestors: [{entries: [" + key("a") + "]}]\n", []string{"ghcr.io/x:1"},
			"pass: verified image signatures for ghcr.io/x:1", nil, "pass: image verified"},
		{"tags stay but are not allowed", "  mutateDigest: false\n  attestors: [{entries: [" + key("a") + "]}]\n", []string{"ghcr.io/x:1"},
			"pass: verified image signatures for ghcr.io/x:1", nil, "fail: missing digest for ghcr.io/x:1"},
		{"digests only", "  required: false\n", []string{"ghcr.io/x:1", "ghcr.io/y@" + digestB},
			"pass: mutated image digest", []string{"ghcr.io/x:1@" + digestA, "ghcr.io/y@" + digestB}, "pass: image verified"},
		{"nobody verifies what is required", "", []string{"ghcr.io/y@" + digestB}, "no result", nil, "fail: unverified image ghcr.io/y@" + digestB},
		{"digest not found", "  required: false\n", []string{"ghcr.io/missing:1"},
			"error: failed to update digest: not found", nil, "fail: missing digest for ghcr.io/missing:1"},
		{"skipped", "  skipImageReferences: ['ghcr.io/s*']\n  attestors: [{entries: [" + key("a") + "]}]\n", []string{"ghcr.io/s", "ghcr.io/x:1"},
			"skip: skipping image reference image ghcr.io/s:latest, policy p ruleName r | pass: verified image signatures for ghcr.io/x:1",
			[]string{"ghcr.io/s", "ghcr.io/x:1@" + digestA}, "pass: image verified, skipped images: ghcr.io/s:latest"},
		{"older fields", "  key: bad\n", []string{"ghcr.io/x:1"},
			"fail: failed to verify image ghcr.io/x:1: .attestors[0].entries[0].keys: no matching signatures found", nil, "fail: missing digest for ghcr.io/x:1"},
		{"validate", "  attestors: [{entries: [" + key("a") + "]}]\n  validate: {message: denied, deny: {conditions: {all: [{key: '{{ image.path }}', operator: Equals, value: bad}]}}}\n",
			[]string{"ghcr.io/bad:1", "ghcr.io/good:1"},
			"pass: verified image signatures for ghcr.io/bad:1 | fail: validation in verifyImages failed: denied | pass: verified image signatures for ghcr.io/good:1 | " +
				"pass: verifyImages validation is passed in r rule",
			[]string{"ghcr.io/bad:1@" + digestA, "ghcr.io/good:1@" + digestA}, "fail: unverified image ghcr.io/bad@" + digestA},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &notary{}
			r := compileRule(t, []byte(verifyRule(c.fields)), nil)
			object := pod(nil, c.images...)
			before := value.JSON(object)
			req := request(map[string]any{"object": object})
			y := r.Eval(verifyScope(t, r, n, req, policy.StageVerifyImages))
			if got := texts(y); got != c.verify {
				t.Errorf("verify:\n got %s\nwant %s", got, c.verify)
			}
			if value.JSON(object) != before {
				t.Error("the object of the request was changed")
			}
			if y.Object != nil {
				req = req.WithObject(y.Object)
			}
			made, err := req.Object.Map()
			if err != nil {
				t.Fatal(err)
			}
			want := c.images
			if c.images2 != nil {
				want = c.images2
			}
			if got := imagesOf(made); !slices.Equal(got, want) {
				t.Errorf("images are %v, want %v", got, want)
			}
			y = r.Eval(verifyScope(t, r, nil, req, policy.StageValidate))
			if got := texts(y); got != c.require {
				t.Errorf("require:\n got %s\nwant %s", got, c.require)
			}
		})
	}
}

// TestImageVolumeIsPinned tests that a verified image volume gets its digest in the object.
func TestImageVolumeIsPinned(t *testing.T) {
	r := compileRule(t, []byte(verifyRule("  attestors: [{entries: ["+key("a")+"]}]\n")), nil)
	object := pod(nil, "docker.io/y")
	object["spec"].(map[string]any)["volumes"] = []any{
		map[string]any{"name": "none", "emptyDir": map[string]any{}},
		map[string]any{"name": "data", "image": map[string]any{"reference": "ghcr.io/data:1", "pullPolicy": "Always"}},
	}
	y := r.Eval(verifyScope(t, r, &notary{}, request(map[string]any{"object": object}), policy.StageVerifyImages))
	if got, want := texts(y), "pass: verified image signatures for ghcr.io/data:1"; got != want || y.Object == nil {
		t.Fatalf("got %s, want %s", got, want)
	}
	made, err := y.Object.Map()
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"emptyDir":{},"name":"none"},{"image":{"pullPolicy":"Always","reference":"ghcr.io/data:1@` + digestA + `"},"name":"data"}]`
	if got := value.JSON(made["spec"].(map[string]any)["volumes"]); got != want {
		t.Errorf("volumes are\n%s\nwant\n%s", got, want)
	}
}

func imagesOf(pod map[string]any) []string {
	var out []string
	for _, c := range pod["spec"].(map[string]any)["containers"].([]any) {
		out = append(out, c.(map[string]any)["image"].(string))
	}
	return out
}

// TestAttestations checks attestations and their conditions.
func TestAttestations(t *testing.T) {
	sbom := world.Statement{Type: "sbom", Predicate: map[string]any{"format": "CycloneDX", "license": "GPL-3.0"}}
	scan := world.Statement{Type: "scan", Predicate: map[string]any{"format": "SARIF", "score": 3.0}}
	two := []world.Statement{sbom, scan}
	const notEnough = "image attestations verification failed, verifiedCount: 0, requiredCount: 1, error: "
	const verified = "pass: verified image attestations for ghcr.io/x:1"
	format := func(f string) string {
		return "conditions: [{all: [{key: '{{ format }}', operator: Equals, value: " + f + ", message: 'format is {{ format }}'}]}]"
	}
	for _, c := range []struct {
		name, attestations string
		statements         []world.Statement
		want               string
	}{
		{"there", "[{type: sbom}]", two, verified},
		{"older field", "[{predicateType: sbom}]", two, verified},
		{"not there", "[{type: vex}]", two, "fail: " + notEnough + "attestations not found for predicate type vex"},
		{"signed", "[{type: sbom, attestors: [{entries: [" + key("a") + "]}]}]", two, verified},
		{"not signed", "[{type: sbom, attestors: [{entries: [" + key("bad") + "]}]}]", two,
			"fail: " + notEnough + ".attestations[0].attestors[0].entries[0].keys: no matching signatures found"},
		{"unreachable", "[{type: sbom, attestors: [{entries: [" + key("down") + "]}]}]", two,
			"error: " + notEnough + ".attestations[0].attestors[0].entries[0].keys: connection refused"},
		{"one of two signers", "[{type: sbom, attestors: [{count: 1, entries: [" + key("bad") + ", " + key("a") + "]}]}]", two, verified},
		{"conditions hold", "[{type: sbom, " + format("CycloneDX") + "}]", two, verified},
		{"conditions do not hold", "[{type: sbom, " + format("SPDX") + "}]", two,
			"fail: " + notEnough + "attestation checks failed for ghcr.io/x:1 and predicate sbom: format is CycloneDX"},
		{"conditions for all statements", "[{type: sbom, " + format("CycloneDX") + "}]", append(two, world.Statement{Type: "sbom", Predicate: map[string]any{"format": "SPDX"}}),
			"fail: " + notEnough + "attestation checks failed for ghcr.io/x:1 and predicate sbom: format is SPDX"},
		{"conditions cannot be evaluated", "[{type: sbom, conditions: [{all: [{key: '{{ missing }}', operator: Equals, value: 1}]}]}]", two,
			"error: " + notEnough + "failed to check attestations: failed to substitute variables in condition key: failed to resolve missing at path : " +
				"JMESPath query failed: Unknown key \"missing\" in path"},
		{"the second is missing", "[{type: sbom}, {type: vex}]", two, "fail: " + notEnough + "attestations not found for predicate type vex"},
		{"named", "[{type: sbom, name: bill}, {type: scan, name: result}]\n" +
			"  validate: {message: bad, deny: {conditions: {any: [{key: '{{ bill.format }}-{{ result.score }}', operator: NotEquals, value: CycloneDX-3}]}}}", two,
			verified + " | pass: verifyImages validation is passed in r rule"},
		{"named and denied", "[{type: sbom, name: bill}]\n" +
			"  validate: {message: bad, deny: {conditions: {any: [{key: '{{ bill.format }}', operator: NotEquals, value: SPDX, message: 'is {{ bill.format }}'}]}}}", two,
			verified + " | fail: validation in verifyImages failed: bad; is CycloneDX"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &notary{statements: c.statements}
			var diags strings.Builder
			r := compileRule(t, []byte(verifyRule("  mutateDigest: false\n  attestations: "+c.attestations+"\n")), &diags)
			req := request(map[string]any{"object": pod(nil, "ghcr.io/x:1")})
			y := r.Eval(verifyScope(t, r, n, req, policy.StageVerifyImages))
			if got := texts(y); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// recorded evaluates both stages of a rule on an object, and returns it with its records.
func recorded(t *testing.T, r *policy.Rule, object map[string]any) map[string]any {
	t.Helper()
	y := r.Eval(verifyScope(t, r, &notary{}, request(map[string]any{"object": object}), policy.StageVerifyImages))
	out, err := y.Object.Map()
	if err != nil || out == nil {
		t.Fatal(texts(y), err)
	}
	return out
}

func annotationsOf(object map[string]any) map[string]any {
	annotations, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
	return annotations
}

// The annotations of records.
const plain, scoped, proof = "kyverno.io/verify-images", "kyverno.io/verify-images-scoped", "ephor.dev/verified-images"

const tagsStay = "  mutateDigest: false\n  verifyDigest: false\n  attestors: [{entries: [{keys: {publicKeys: a}}]}]\n"

// TestRecords: proved records of other policies and rules stay, those of the rule are replaced, and a record that a user wrote
// never counts as a verification.
func TestRecords(t *testing.T) {
	r := compileRule(t, []byte(verifyRule(tagsStay)), nil)
	made := func(annotations map[string]any, image string) map[string]any {
		return annotationsOf(recorded(t, r, pod(annotations, image)))
	}
	fresh := made(nil, "ghcr.io/x:1")
	if fresh[plain] != `{"ghcr.io/x:1":"pass"}` || fresh[scoped] != `{"version":1,"policies":{"/p":{"r":{"ghcr.io/x:1":"pass"}}}}` ||
		!strings.Contains(fresh[proof].(string), `"digests":{"ghcr.io/x:1":"`+digestA) {
		t.Errorf("fresh records: %v", fresh)
	}
	if pinned := made(nil, "ghcr.io/x:1@"+digestA); pinned[plain] != `{"ghcr.io/x@`+digestA+`":"pass"}` || strings.Contains(pinned[proof].(string), "digests") {
		t.Errorf("records of a digest: %v", pinned)
	}

	// Records without a proof, and records that are proved for another object, are dropped.
	const others = `{"version":1,"policies":{"d/other":{"s":{"i":"pass"}},"/p":{"r":{"forged":"pass"},"s":{"i":"fail"}}}}`
	for name, annotations := range map[string]map[string]any{
		"no proof":         {"team": "a", plain: `{"ghcr.io/old":true,"ghcr.io/x:1":"fail"}`, scoped: others},
		"malformed":        {"team": "a", plain: "{", scoped: "[]", proof: "{"},
		"of other records": {"team": "a", scoped: others, proof: fresh[proof]},
	} {
		got := made(annotations, "ghcr.io/x:1")
		if got["team"] != "a" || got[plain] != fresh[plain] || got[scoped] != fresh[scoped] || got[proof] != fresh[proof] {
			t.Errorf("%s: %v", name, got)
		}
	}

	// Records that are proved for the object stay.
	second := compileRule(t, []byte(strings.Replace(verifyRule(tagsStay), "name: r", "name: s", 1)), nil)
	both := annotationsOf(recorded(t, second, recorded(t, r, pod(nil, "ghcr.io/x:1"))))
	if both[scoped] != `{"version":1,"policies":{"/p":{"r":{"ghcr.io/x:1":"pass"},"s":{"ghcr.io/x:1":"pass"}}}}` || both[plain] != fresh[plain] {
		t.Errorf("two rules: %v", both)
	}
}

// Row S17 of docs/security/threat-model.md: only records that the installation wrote for this object are accepted, both in a review that
// requires them and in an update that keeps images.
func TestS17RecordsCannotBeForged(t *testing.T) {
	r := compileRule(t, []byte(verifyRule(tagsStay)), nil)
	const record = `{"version":1,"policies":{"/p":{"r":{"ghcr.io/x:1":"pass"}}}}`
	const unverified = "fail: unverified image ghcr.io/x:1"
	edit := func(change func(metadata map[string]any)) map[string]any {
		out := recorded(t, r, pod(nil, "ghcr.io/x:1"))
		change(out["metadata"].(map[string]any))
		return out
	}
	generated := pod(nil, "ghcr.io/x:1")
	generated["metadata"] = map[string]any{"namespace": "d", "generateName": "web-7f-", "ownerReferences": []any{
		map[string]any{"controller": true, "kind": "ReplicaSet", "name": "web-7f", "uid": "u"},
	}}
	generated = recorded(t, r, generated)
	generated["metadata"].(map[string]any)["name"] = "web-7f-x2kq9" // as the API server does after mutation
	moved := recorded(t, r, pod(nil, "ghcr.io/x:1"))
	for name, c := range map[string]struct {
		object map[string]any
		want   string
	}{
		"own":               {edit(func(map[string]any) {}), "pass: image verified"},
		"other annotations": {edit(func(m map[string]any) { m["annotations"].(map[string]any)["team"] = "a" }), "pass: image verified"},
		"a generated name":  {generated, "pass: image verified"},
		"another name":      {edit(func(m map[string]any) { m["name"] = "other" }), unverified},
		"another owner": {edit(func(m map[string]any) {
			m["ownerReferences"] = []any{map[string]any{"controller": true, "uid": "other"}}
		}), unverified},
		"another image": {edit(func(m map[string]any) {
			m["annotations"].(map[string]any)[scoped] = strings.ReplaceAll(record, "x:1", "forged:1")
		}), unverified},
		"another digest": {edit(func(m map[string]any) {
			a := m["annotations"].(map[string]any)
			a[proof] = strings.ReplaceAll(a[proof].(string), digestA, digestB)
		}), unverified},
		"without proof":   {pod(map[string]any{scoped: record, plain: `{"ghcr.io/x:1":"pass"}`}, "ghcr.io/x:1"), unverified},
		"another policy":  {pod(map[string]any{scoped: strings.Replace(record, "/p", "/q", 1)}, "ghcr.io/x:1"), unverified},
		"malformed":       {pod(map[string]any{scoped: "{", proof: "{"}, "ghcr.io/x:1"), unverified},
		"another version": {pod(map[string]any{scoped: strings.Replace(record, "1", "2", 1)}, "ghcr.io/x:1"), unverified},
	} {
		req := request(map[string]any{"object": c.object})
		if got := texts(r.Eval(verifyScope(t, r, nil, req, policy.StageValidate))); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		// An update keeps the image only if the old object proves it.
		n := &notary{}
		req = request(map[string]any{"operation": "UPDATE", "object": c.object, "oldObject": c.object})
		y := r.Eval(verifyScope(t, r, n, req, policy.StageVerifyImages))
		if kept := len(n.asked) == 0; kept != (c.want != unverified) {
			t.Errorf("%s: the image was kept: %v, %s", name, kept, texts(y))
		}
	}

	elsewhere := request(map[string]any{"object": moved})
	elsewhere.Namespace = "e"
	if got := texts(r.Eval(verifyScope(t, r, nil, elsewhere, policy.StageValidate))); got != unverified {
		t.Errorf("another namespace: %s", got)
	}
	for _, stage := range []policy.Stage{policy.StageVerifyImages, policy.StageValidate} { // without keys, no record can be checked
		s := verifyScope(t, r, &notary{}, request(map[string]any{"object": moved}), stage)
		s.Env.World.Seals = sealer{down: true}
		if y := r.Eval(s); y.Status != policy.StatusError || !strings.Contains(y.Message, "no keys") {
			t.Errorf("without keys: %s", texts(y))
		}
	}
	offline := verifyScope(t, r, nil, request(map[string]any{"object": pod(map[string]any{scoped: record}, "ghcr.io/x:1")}), policy.StageValidate)
	offline.Env.World.Seals = nil
	if got := texts(r.Eval(offline)); got != "pass: image verified" {
		t.Errorf("on the command line: %s", got)
	}
}

// T26: a record belongs to a version of the policy: after a change, such as that of a key, an update verifies the image again, and the records
// of the earlier version are dropped. Records of other policies stay.
func TestT26RecordsBelongToAVersionOfThePolicy(t *testing.T) {
	r := compileRule(t, []byte(verifyRule(tagsStay)), nil)
	scope := func(n *notary, version policy.Program, req *policy.Request, stage policy.Stage) *policy.Call {
		s := verifyScope(t, r, n, req, stage)
		p := *s.Program
		p.Name, p.UID, p.Generation = version.Name, version.UID, version.Generation
		s.Program = &p
		return s
	}
	first := policy.Program{Name: "p", UID: "u", Generation: 1}
	made, err := r.Eval(scope(&notary{}, first, request(map[string]any{"object": pod(nil, "ghcr.io/x:1")}), policy.StageVerifyImages)).Object.Map()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		version policy.Program
		kept    bool
	}{
		"the same":          {first, true},
		"changed":           {policy.Program{Name: "p", UID: "u", Generation: 2}, false},
		"deleted, and made": {policy.Program{Name: "p", UID: "v", Generation: 1}, false},
		"another policy":    {policy.Program{Name: "q", UID: "u", Generation: 1}, false},
	} {
		y := r.Eval(scope(nil, c.version, request(map[string]any{"object": made}), policy.StageValidate))
		if kept := texts(y) == "pass: image verified"; kept != c.kept {
			t.Errorf("%s: required: %s", name, texts(y))
		}
		n := &notary{}
		req := request(map[string]any{"operation": "UPDATE", "object": made, "oldObject": made})
		y = r.Eval(scope(n, c.version, req, policy.StageVerifyImages))
		if kept := len(n.asked) == 0; kept != c.kept {
			t.Errorf("%s: the image was kept: %v, %s", name, kept, texts(y))
		}
		again := made
		if y.Object != nil {
			again, err = y.Object.Map()
		}
		if err != nil || texts(r.Eval(scope(nil, c.version, request(map[string]any{"object": again}), policy.StageValidate))) != "pass: image verified" {
			t.Errorf("%s: recorded again: %v, %v", name, again, err)
		}
		// The records of another policy still count.
		if y := r.Eval(scope(nil, first, request(map[string]any{"object": again}), policy.StageValidate)); (texts(y) == "pass: image verified") != (c.kept || c.version.Name == "q") {
			t.Errorf("%s: the first version: %s", name, texts(y))
		}
	}
}

// An entry that fails is recorded as failed, even if another one later adds a digest to the tag.
func TestRecordsOfSeveralEntries(t *testing.T) {
	r := compileRule(t, []byte("name: r\nmatch: {any: [{resources: {kinds: [Pod]}}]}\nverifyImages:\n"+
		"- {imageReferences: ['ghcr.io/*'], failureAction: Enforce, mutateDigest: false, verifyDigest: false, attestors: [{entries: ["+key("bad")+"]}]}\n"+
		"- {imageReferences: ['ghcr.io/*'], failureAction: Enforce, attestors: [{entries: ["+key("a")+"]}]}\n"), nil)
	n := &notary{}
	y := r.Eval(verifyScope(t, r, n, request(map[string]any{"object": pod(nil, "ghcr.io/x:1")}), policy.StageVerifyImages))
	made, err := y.Object.Map()
	if err != nil || imagesOf(made)[0] != "ghcr.io/x:1@"+digestA {
		t.Fatal(texts(y), made, err)
	}
	if got := annotationsOf(made)[plain]; got != `{"ghcr.io/x@`+digestA+`":"fail"}` {
		t.Errorf("recorded %v", got)
	}
	if !slices.Equal(n.asked, []string{"digest of ghcr.io/x:1", "bad@ghcr.io/x:1@" + digestA, "a@ghcr.io/x:1@" + digestA}) {
		t.Errorf("asked %q", n.asked)
	}
}

// TestUnchangedImages: an update keeps earlier verifications and verifies new images.
func TestUnchangedImages(t *testing.T) {
	r := compileRule(t, []byte(verifyRule(tagsStay)), nil)
	record := annotationsOf(recorded(t, r, pod(nil, "ghcr.io/x:1", "ghcr.io/gone:1")))
	for _, c := range []struct {
		name      string
		operation policy.Operation
		old       map[string]any
		images    []string
		verified  int
	}{
		{"unchanged", policy.Update, pod(record, "ghcr.io/x:1"), []string{"ghcr.io/x:1"}, 0},
		{"unchanged in another container", policy.Update, pod(record, "docker.io/y", "ghcr.io/x:1"), []string{"ghcr.io/x:1"}, 0},
		{"one is new", policy.Update, pod(record, "ghcr.io/x:1"), []string{"ghcr.io/x:1", "ghcr.io/y:1"}, 1},
		{"recorded but not in the old object", policy.Update, pod(record, "ghcr.io/x:1"), []string{"ghcr.io/gone:1"}, 1},
		{"unchanged but not recorded", policy.Update, pod(nil, "ghcr.io/x:1"), []string{"ghcr.io/x:1"}, 1},
		{"created", policy.Create, nil, []string{"ghcr.io/x:1"}, 1},
	} {
		in := map[string]any{"operation": string(c.operation), "object": pod(record, c.images...)}
		if c.old != nil {
			in["oldObject"] = c.old
		}
		n := &notary{}
		req := request(in)
		y := r.Eval(verifyScope(t, r, n, req, policy.StageVerifyImages))
		if len(n.asked) != 2*c.verified { // the digest and the signature
			t.Errorf("%s: asked %v, want %d images; %s", c.name, n.asked, c.verified, texts(y))
		}
		if y.Object != nil {
			req = req.WithObject(y.Object)
		}
		if got := texts(r.Eval(verifyScope(t, r, nil, req, policy.StageValidate))); got != "pass: image verified" {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// TestStages: a rule takes part in the stages in which it has work, and a scan verifies without changing anything.
func TestStages(t *testing.T) {
	const both = policy.StageVerifyImages | policy.StageValidate
	for fields, want := range map[string]policy.Stage{
		"":                      both,
		"  required: false\n":   both,
		"  verifyDigest: false": both,
		"  verifyDigest: false\n  required: false\n": policy.StageVerifyImages,
	} {
		if r := compileRule(t, []byte(verifyRule(fields)), nil); r.Stage != want || !r.Needs.Images || !r.SkipOnDelete {
			t.Errorf("%q: stage %b, want %b; %+v", fields, r.Stage, want, r.Needs)
		}
	}
	r := compileRule(t, []byte(verifyRule("  attestors: [{entries: ["+key("a")+"]}]\n")), nil)
	req := request(map[string]any{"object": pod(nil, "ghcr.io/x:1"), "scan": true})
	y := r.Eval(verifyScope(t, r, &notary{}, req, both))
	if got := texts(y); got != "pass: verified image signatures for ghcr.io/x:1" || y.Object != nil {
		t.Errorf("a scan: %s, %v", got, y.Object)
	}
}

// secretary records the credentials of registry logins.
type secretary struct {
	notary
	logins []world.ImageRequest
}

func (n *secretary) Verify(ctx context.Context, r world.SignatureRequest) (string, error) {
	n.logins = append(n.logins, r.Registry)
	return n.notary.Verify(ctx, r)
}

// TestPullSecrets: the pull secrets of the object are used in addition to the credentials of the entry.
func TestPullSecrets(t *testing.T) {
	r := compileRule(t, []byte(verifyRule("  mutateDigest: false\n  imageRegistryCredentials: {secrets: [own]}\n  attestors: [{entries: ["+key("a")+"]}]\n")), nil)
	for _, secret := range []string{"first", "second"} {
		object := pod(nil, "ghcr.io/x:1")
		spec := object["spec"].(map[string]any)
		spec["imagePullSecrets"] = []any{map[string]any{"name": secret}, map[string]any{}, nil}
		spec["serviceAccountName"], spec["nodeSelector"] = "robot", map[string]any{"kubernetes.io/arch": "arm64"}
		n := &secretary{}
		s := verifyScope(t, r, nil, request(map[string]any{"object": object}), policy.StageVerifyImages)
		s.Env.World = world.World{Signatures: n}
		if got := texts(r.Eval(s)); got != "pass: verified image signatures for ghcr.io/x:1" {
			t.Error(got)
		}
		want := world.ImageRequest{
			Secrets: []string{"own"}, Platform: "linux/arm64", Object: world.ObjectSecrets{Namespace: "d", Names: []string{secret}, ServiceAccount: "robot"},
		}
		if len(n.logins) != 1 || !reflect.DeepEqual(n.logins[0], want) {
			t.Errorf("login %+v", n.logins)
		}
	}
}

// recaller caches answers for the same part of a policy and the same digest.
type recaller struct {
	notary
	memory map[string]bool
}

func (n *recaller) Verify(ctx context.Context, r world.SignatureRequest) (string, error) {
	if at := r.For + signer(r.Attestor) + r.Image; r.For != "" {
		if n.memory[at] {
			*r.Remembered = true
			return digestA, nil
		}
		n.memory[at] = true
	}
	return n.notary.Verify(ctx, r)
}

// Row S15 of docs/security/threat-model.md: answers are cached for the same entry of the same version of a policy, and for a digest. The
// message mentions the cache, and validate blocks are still evaluated.
func TestS15VerificationsBelongToADigest(t *testing.T) {
	n := &recaller{memory: map[string]bool{}}
	const signed = "  attestors: [{entries: [{keys: {publicKeys: a}}]}]\n"
	const fresh, cached = "pass: verified image signatures for ghcr.io/x:1", "pass: verified from cache"
	const denied = " | fail: validation in verifyImages failed: m"
	for _, c := range []struct {
		fields, want string
		generation   int64
	}{
		{signed, fresh, 1},
		{signed, cached, 1},
		{signed, fresh, 2},
		{signed + "  useCache: false\n", fresh, 1},
		{"  attestors: [{entries: [{keys: {publicKeys: a}}, {keys: {publicKeys: b}}]}]\n", fresh, 1}, // the second key is verified for the first time
		{signed + "  validate: {message: m, deny: {conditions: {all: [{key: a, operator: Equals, value: a}]}}}\n", cached + denied, 1},
	} {
		r := compileRule(t, []byte(verifyRule(c.fields)), nil)
		s := verifyScope(t, r, nil, request(map[string]any{"object": pod(nil, "ghcr.io/x:1")}), policy.StageVerifyImages)
		s.Env.World.Signatures, s.Env.World.Images.Image, s.Program.Generation = n, n.notary.Image, c.generation
		if got := texts(r.Eval(s)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.fields, got, c.want)
		}
	}
	for at := range n.memory {
		if !strings.HasSuffix(at, "@"+digestA) {
			t.Errorf("%q is remembered of a tag", at)
		}
	}
}

// TestMissingImage: an image that does not exist in the registry is unverified, and one that cannot be looked up is an error.
func TestMissingImage(t *testing.T) {
	r := compileRule(t, []byte(verifyRule("  attestors: [{entries: ["+key("a")+"]}]\n")), nil)
	for err, want := range map[error]string{
		&world.NoImageError{Reason: "no such tag"}: "fail: failed to verify image ghcr.io/x:1: no such tag",
		errors.New("connection refused"):           "error: failed to verify image ghcr.io/x:1: connection refused",
	} {
		s := verifyScope(t, r, &notary{}, request(map[string]any{"object": pod(nil, "ghcr.io/x:1")}), policy.StageVerifyImages)
		s.Env.World.Images.Image = func(context.Context, world.ImageRequest) (map[string]any, error) { return nil, err }
		if got := texts(r.Eval(s)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// An outage does not hide statements that were read and not accepted.
func TestOutageAndForgery(t *testing.T) {
	const where = "failed to verify image ghcr.io/x:1: "
	down, bad := func(set, i int) string {
		return fmt.Sprintf(".attestors[%d].entries[%d].keys: connection refused", set, i)
	},
		func(set, i int) string {
			return fmt.Sprintf(".attestors[%d].entries[%d].keys: no matching signatures found", set, i)
		}
	for attestors, want := range map[string]string{
		"[{entries: [" + key("down") + ", " + key("bad") + "]}]":                                     "fail: " + where + down(0, 0) + "; " + bad(0, 1),
		"[{count: 1, entries: [" + key("down") + ", " + key("bad") + "]}]":                           "error: " + where + down(0, 0) + "; " + bad(0, 1),
		"[{entries: [" + key("down") + "]}, {entries: [" + key("bad") + "]}]":                        "fail: " + where + bad(1, 0),
		"[{entries: [" + key("down") + "]}, {entries: [" + key("a") + "]}]":                          "error: " + where + down(0, 0),
		"[{entries: [{attestor: {count: 1, entries: [" + key("down") + "]}}, " + key("bad") + "]}]":  "fail: " + where + ".attestors[0].entries[0].attestor.entries[0].keys: connection refused; " + bad(0, 1),
		"[{entries: [{attestor: {count: 1, entries: [" + key("down") + "]}}, " + key("good") + "]}]": "error: " + where + ".attestors[0].entries[0].attestor.entries[0].keys: connection refused",
	} {
		r := compileRule(t, []byte(verifyRule("  attestors: "+attestors+"\n")), nil)
		y := r.Eval(verifyScope(t, r, &notary{}, request(map[string]any{"object": pod(nil, "ghcr.io/x:1")}), policy.StageVerifyImages))
		if got := texts(y); got != want {
			t.Errorf("%s:\n got %s\nwant %s", attestors, got, want)
		}
	}
}

// Row S14 of docs/security/threat-model.md: a tag that moves during a review has no effect, since it is resolved once. The verified digest
// is written.
func TestS14TagsAreLookedUpOnce(t *testing.T) {
	moving := &movingTag{}
	first := compileRule(t, []byte(verifyRule(tagsStay)), nil)
	second := compileRule(t, []byte(verifyRule("  attestors: [{entries: ["+key("b")+"]}]\n")), nil)
	req := request(map[string]any{"object": pod(nil, "ghcr.io/x:1", "ghcr.io/x:1")})
	for _, r := range []*policy.Rule{first, second} {
		s := verifyScope(t, r, &moving.notary, req, policy.StageVerifyImages)
		s.Env.World.Images.Image = moving.Image
		y := r.Eval(s)
		if y.Status != policy.StatusPass || y.Object == nil {
			t.Fatal(texts(y))
		}
		req = req.WithObject(y.Object)
	}
	made, err := req.Object.Map()
	if err != nil || !slices.Equal(imagesOf(made), []string{"ghcr.io/x:1@" + digestA, "ghcr.io/x:1@" + digestA}) || moving.lookups != 1 {
		t.Errorf("%v, %d lookups, %v", imagesOf(made), moving.lookups, err)
	}
}

// movingTag is a registry whose tags resolve to another image at each lookup.
type movingTag struct {
	notary
	lookups int
}

func (m *movingTag) Image(_ context.Context, r world.ImageRequest) (map[string]any, error) {
	m.lookups++
	return map[string]any{"resolvedImage": "x@" + []string{digestA, digestB}[(m.lookups-1)%2]}, nil
}

// TestNotaryPaths: messages name Notary entries without the kind of their attestor, as in Kyverno.
func TestNotaryPaths(t *testing.T) {
	r := compileRule(t, []byte(verifyRule("  type: Notary\n  attestors: [{entries: [{certificates: {cert: bad}}]}]\n")), nil)
	y := r.Eval(verifyScope(t, r, &notary{}, request(map[string]any{"object": pod(nil, "ghcr.io/x:1")}), policy.StageVerifyImages))
	if got := texts(y); got != "fail: failed to verify image ghcr.io/x:1: .attestors[0].entries[0]: no matching signatures found" {
		t.Error(got)
	}
}

// TestSkippedTags: a skipped tag cannot be combined with the digest of another image.
func TestSkippedTags(t *testing.T) {
	r := compileRule(t, []byte(verifyRule("  skipImageReferences: ['ghcr.io/x:debug*', 'ghcr.io/y@*']\n  attestors: [{entries: ["+key("bad")+"]}]\n")), nil)
	for image, want := range map[string]policy.Status{
		"ghcr.io/x:debug": policy.StatusSkip, "ghcr.io/x:debug@" + digestB: policy.StatusFail, "ghcr.io/y:1@" + digestB: policy.StatusSkip, "ghcr.io/y:1": policy.StatusFail,
	} {
		y := r.Eval(verifyScope(t, r, &notary{}, request(map[string]any{"object": pod(nil, image)}), policy.StageVerifyImages))
		if y.Status != want {
			t.Errorf("%s: %s", image, texts(y))
		}
	}
}

func (*notary) Blob(context.Context, world.BlobRequest) (string, error) {
	return "", world.ErrUnavailable
}
