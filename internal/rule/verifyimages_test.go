package rule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

// Digests of the fake registry.
const (
	digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	digestB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// notary is a fake registry: who signed which image, and which statements there are. Every key signs, apart from the one
// named bad, the one named down, whose verification cannot be carried out, and the one named other, which signed another
// image.
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

// key is an entry of a set of attestors.
func key(name string) string { return "{keys: {publicKeys: " + name + "}}" }

func verifyRule(fields string) string {
	return "name: r\nmatch: {any: [{resources: {kinds: [Pod]}}]}\nverifyImages:\n- imageReferences: ['ghcr.io/*']\n  failureAction: Enforce\n" + fields
}

func verifyScope(t *testing.T, r *policy.Rule, n *notary, req *policy.Request, stages policy.Stage) *policy.Call {
	s := call(req, r)
	s.Env.World = world.World{Signatures: n, Images: n}
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

// TestAttestorSets is the logic of the policy language.
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
			if len(n.asked) != c.asked {
				t.Errorf("asked %v, want %d", n.asked, c.asked)
			}
		})
	}
}

// TestVerifyThenRequire takes an object through both halves: what the first recorded satisfies the second.
func TestVerifyThenRequire(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		images       []string
		verify       string
		images2      []string // after the first half; nil when they stay
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
			"fail: failed to verify image ghcr.io/x:1@" + digestB + ": .attestors[0].entries[0].keys: digest mismatch: expected " + digestB + ", received " + digestA,
			nil, "fail: unverified image ghcr.io/x:1@" + digestB},
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
			[]string{"ghcr.io/bad:1@" + digestA, "ghcr.io/good:1@" + digestA}, "fail: unverified image ghcr.io/bad:1@" + digestA},
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

// TestRecords: records of other policies and rules stay, those of the rule are replaced, and nothing that a user writes
// stands for a verification.
func TestRecords(t *testing.T) {
	r := compileRule(t, []byte(verifyRule("  mutateDigest: false\n  verifyDigest: false\n  attestors: [{entries: ["+key("a")+"]}]\n")), nil)
	made := func(annotations map[string]any, image string) map[string]any {
		req := request(map[string]any{"object": pod(annotations, image)})
		y := r.Eval(verifyScope(t, r, &notary{}, req, policy.StageVerifyImages))
		out, err := y.Object.Map()
		if err != nil || out == nil {
			t.Fatal(texts(y), err)
		}
		return out["metadata"].(map[string]any)["annotations"].(map[string]any)
	}
	const plain, scoped = "kyverno.io/verify-images", "kyverno.io/verify-images-scoped"
	fresh := made(nil, "ghcr.io/x:1")
	if fresh[plain] != `{"ghcr.io/x:1":"pass"}` || fresh[scoped] != `{"policies":{"/p":{"r":{"ghcr.io/x:1":"pass"}}},"version":1}` {
		t.Errorf("fresh records: %v", fresh)
	}
	merged := made(map[string]any{
		"team": "a", plain: `{"ghcr.io/old":true,"ghcr.io/x:1":"fail"}`,
		scoped: `{"version":1,"policies":{"d/other":{"s":{"i":"pass"}},"/p":{"r":{"forged":"pass"},"s":{"i":"fail"}}}}`,
	}, "ghcr.io/x:1")
	if merged["team"] != "a" || merged[plain] != `{"ghcr.io/old":true,"ghcr.io/x:1":"pass"}` ||
		merged[scoped] != `{"policies":{"/p":{"r":{"ghcr.io/x:1":"pass"},"s":{"i":"fail"}},"d/other":{"s":{"i":"pass"}}},"version":1}` {
		t.Errorf("merged records: %v", merged)
	}
	broken := made(map[string]any{plain: "{", scoped: "[]"}, "ghcr.io/x:1")
	if broken[plain] != fresh[plain] || broken[scoped] != fresh[scoped] {
		t.Errorf("after malformed records: %v", broken)
	}

	for name, c := range map[string]struct {
		record, want string
	}{
		"own":             {fresh[scoped].(string), "pass: image verified"},
		"another policy":  {`{"version":1,"policies":{"/q":{"r":{"ghcr.io/x:1":"pass"}}}}`, "fail: unverified image ghcr.io/x:1"},
		"another rule":    {`{"version":1,"policies":{"/p":{"q":{"ghcr.io/x:1":"pass"}}}}`, "fail: unverified image ghcr.io/x:1"},
		"a failure":       {`{"version":1,"policies":{"/p":{"r":{"ghcr.io/x:1":"fail"}}}}`, "fail: unverified image ghcr.io/x:1"},
		"another version": {`{"version":2,"policies":{"/p":{"r":{"ghcr.io/x:1":"pass"}}}}`, "fail: unverified image ghcr.io/x:1"},
		"malformed":       {`{`, "fail: unverified image ghcr.io/x:1"},
	} {
		req := request(map[string]any{"object": pod(map[string]any{scoped: c.record, plain: `{"ghcr.io/x:1":"pass"}`}, "ghcr.io/x:1")})
		if got := texts(r.Eval(verifyScope(t, r, nil, req, policy.StageValidate))); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestUnchangedImages: an update keeps what was verified before, and verifies what is new.
func TestUnchangedImages(t *testing.T) {
	const scoped = "kyverno.io/verify-images-scoped"
	record := map[string]any{scoped: `{"version":1,"policies":{"/p":{"r":{"ghcr.io/x:1":"pass","ghcr.io/forged:1":"pass"}}}}`}
	r := compileRule(t, []byte(verifyRule("  mutateDigest: false\n  verifyDigest: false\n  attestors: [{entries: ["+key("a")+"]}]\n")), nil)
	for _, c := range []struct {
		name      string
		operation policy.Operation
		old       map[string]any
		images    []string
		asked     int
	}{
		{"unchanged", policy.Update, pod(record, "ghcr.io/x:1"), []string{"ghcr.io/x:1"}, 0},
		{"unchanged in another container", policy.Update, pod(record, "docker.io/y", "ghcr.io/x:1"), []string{"ghcr.io/x:1"}, 0},
		{"one is new", policy.Update, pod(record, "ghcr.io/x:1"), []string{"ghcr.io/x:1", "ghcr.io/y:1"}, 1},
		{"recorded but not in the old object", policy.Update, pod(record, "ghcr.io/x:1"), []string{"ghcr.io/forged:1"}, 1},
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
		if len(n.asked) != c.asked {
			t.Errorf("%s: asked %v, want %d; %s", c.name, n.asked, c.asked, texts(y))
		}
		if y.Object != nil {
			req = req.WithObject(y.Object)
		}
		if got := texts(r.Eval(verifyScope(t, r, nil, req, policy.StageValidate))); got != "pass: image verified" {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// TestStages: a rule takes part where it has something to do, and a scan verifies without changing anything.
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

// secretary notes how a registry is logged in to.
type secretary struct {
	notary
	secrets [][]string
}

func (n *secretary) Verify(ctx context.Context, r world.SignatureRequest) (string, error) {
	n.secrets = append(n.secrets, r.Registry.Secrets)
	return n.notary.Verify(ctx, r)
}

// TestPullSecrets: the pull secrets of the object are used beside those of the entry.
func TestPullSecrets(t *testing.T) {
	r := compileRule(t, []byte(verifyRule("  mutateDigest: false\n  imageRegistryCredentials: {secrets: [own]}\n  attestors: [{entries: ["+key("a")+"]}]\n")), nil)
	for _, secret := range []string{"first", "second"} {
		object := pod(nil, "ghcr.io/x:1")
		object["spec"].(map[string]any)["imagePullSecrets"] = []any{map[string]any{"name": secret}, map[string]any{}, nil}
		n := &secretary{}
		s := verifyScope(t, r, nil, request(map[string]any{"object": object}), policy.StageVerifyImages)
		s.Env.World = world.World{Signatures: n}
		if got := texts(r.Eval(s)); got != "pass: verified image signatures for ghcr.io/x:1" {
			t.Error(got)
		}
		if len(n.secrets) != 1 || !slices.Equal(n.secrets[0], []string{"own", "d/" + secret}) {
			t.Errorf("secrets %v", n.secrets)
		}
	}
}

// memory remembers verifications for ever.
type memory map[string]string

func (m memory) Digest(key string) (string, bool) { d, ok := m[key]; return d, ok }
func (m memory) Remember(key, digest string)      { m[key] = digest }

// TestCache: a verified image is not verified again, for the same rule of the same policy; a failure is not remembered.
func TestCache(t *testing.T) {
	m := memory{}
	const signed = "  attestors: [{entries: [{keys: {publicKeys: a}}]}]\n"
	const fresh, cached = "pass: verified image signatures for ghcr.io/x:1", "pass: verified from cache"
	for _, c := range []struct {
		fields, image string
		generation    int64
		want          string
		asked         int
	}{
		{signed, "ghcr.io/x:1", 1, fresh, 1},
		{signed, "ghcr.io/x:1", 1, cached, 0},
		{signed, "ghcr.io/x:1", 2, fresh, 1},
		{signed, "ghcr.io/y:1", 1, "pass: verified image signatures for ghcr.io/y:1", 1},
		{signed + "  useCache: false\n", "ghcr.io/x:1", 1, fresh, 1},
		{signed + "  validate: {message: m, deny: {conditions: {all: [{key: a, operator: Equals, value: b}]}}}\n", "ghcr.io/x:1", 1,
			fresh + " | pass: verifyImages validation is passed in r rule", 1},
		{"  attestors: [{entries: [{keys: {publicKeys: '{{ request.object.metadata.name }}'}}]}]\n", "ghcr.io/x:1", 1, fresh, 1},
		{"  attestors: [{entries: [{keys: {publicKeys: bad}}]}]\n", "ghcr.io/z:1", 1,
			"fail: failed to verify image ghcr.io/z:1: .attestors[0].entries[0].keys: no matching signatures found", 1},
		{"  attestors: [{entries: [{keys: {publicKeys: bad}}]}]\n", "ghcr.io/z:1", 1,
			"fail: failed to verify image ghcr.io/z:1: .attestors[0].entries[0].keys: no matching signatures found", 1},
	} {
		n := &notary{}
		r := compileRule(t, []byte(verifyRule(c.fields)), nil)
		s := verifyScope(t, r, n, request(map[string]any{"object": pod(nil, c.image)}), policy.StageVerifyImages)
		s.Env.World.Verified, s.Program.Generation = m, c.generation
		y := r.Eval(s)
		if got := texts(y); got != c.want || len(n.asked) != c.asked {
			t.Errorf("%s %s: got %s, asked %v; want %s, %d", c.fields, c.image, got, n.asked, c.want, c.asked)
		}
		if y.Status == policy.StatusPass {
			made, err := y.Object.Map()
			if err != nil || imagesOf(made)[0] != c.image+"@"+digestA {
				t.Errorf("%s: %v, %v", c.image, made, err)
			}
		}
	}
}

// Row S15 of docs/threat-model.md: what is remembered of a verification is about a digest. It counts for no tag that
// stays a tag, since the tag may point to another image by now, and for no other policy.
func TestS15VerificationsBelongToADigest(t *testing.T) {
	const signed, tags = "  attestors: [{entries: [{keys: {publicKeys: a}}]}]\n", "  mutateDigest: false\n  verifyDigest: false\n"
	for _, c := range []struct {
		name, fields, image, policy string
		scan                        bool
		asked                       int // the second time
	}{
		{"a tag that is replaced by the digest", signed, "ghcr.io/x:1", "p", false, 0},
		{"a digest", tags + signed, "ghcr.io/x@" + digestA, "p", false, 0},
		{"a tag that stays", tags + signed, "ghcr.io/x:1", "p", false, 1},
		{"a tag in a scan", signed, "ghcr.io/x:1", "p", true, 1},
		{"another policy", signed, "ghcr.io/x:1", "other", false, 1},
	} {
		m, n := memory{}, &notary{}
		for i, name := range []string{"p", c.policy} {
			n.asked = nil
			r := compileRule(t, []byte(verifyRule(c.fields)), nil)
			req := request(map[string]any{"object": pod(nil, c.image)})
			if c.scan {
				req.Origin = policy.FromScan
			}
			s := verifyScope(t, r, n, req, policy.StageVerifyImages)
			program := *s.Program
			program.Name = name
			s.Env.World.Verified, s.Program = m, &program
			if y := r.Eval(s); y.Status != policy.StatusPass {
				t.Errorf("%s: %s", c.name, texts(y))
			}
			if i == 1 && len(n.asked) != c.asked {
				t.Errorf("%s: asked %q after a verification, want %d", c.name, n.asked, c.asked)
			}
		}
	}
}
