package imagevalidating

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

const testDigest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// witness knows who signed, records requests, and cannot reach the attestor named outage. The attestor b signed another digest.
type witness struct{ asked []string }

func (w *witness) Verify(_ context.Context, r world.SignatureRequest) (string, error) {
	key := ""
	if r.Attestor != nil {
		key = r.Attestor.Key.PublicKey
	}
	w.asked = append(w.asked, fmt.Sprint(key, " ", r.Image, " ", r.Registry.Secrets, r.Repository, r.TagPrefix))
	switch key {
	case "outage":
		return "", errors.New("connection refused")
	case "stranger":
		return "", &world.UnverifiedError{Reason: "no matching signatures"}
	case "b":
		return strings.Repeat("b", 3), nil
	}
	return testDigest, nil
}

func (w *witness) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	d, err := w.Verify(ctx, r)
	if err != nil || r.Type == "none" {
		return d, nil, err
	}
	return d, []world.Statement{{Type: r.Type, Document: r.Type + " of " + r.Image}}, nil
}

func (*witness) Blob(context.Context, world.BlobRequest) (string, error) {
	return "", world.ErrUnavailable
}

// verifierOf returns a verifier whose attestors have the forms that their names list, such as a+b; the attestor elsewhere has a source.
func verifierOf(w world.World) *verifier {
	e := &evaluator{references: &references{all: true}, attestors: map[string]attestor{}, attestations: map[string]statement{
		"intoto": {kind: "slsa"}, "referrer": {kind: "sbom", referrer: true}, "none": {kind: "none"}, "absent": {kind: "none", referrer: true},
	}}
	for _, name := range []string{"a", "b", "stranger", "stranger+a", "stranger+outage", "outage+stranger", "elsewhere", "nobody"} {
		e.attestors[name] = func(run.TextOf) (authority, error) {
			out := authority{name: name, request: world.SignatureRequest{Format: imageverify.FormatCosign}}
			keys := strings.Split(name, "+")
			switch name {
			case "nobody":
				keys = nil
			case "elsewhere":
				out.request.Repository, out.request.TagPrefix, out.request.Registry.Secrets = "r", "p", []string{"s"}
			}
			for _, key := range keys {
				out.forms = append(out.forms, &world.Attestor{Key: &world.KeyAttestor{PublicKey: key}})
			}
			return out, nil
		}
	}
	call := &policy.Call{
		Env:     &evalenv.Env{Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes), World: w},
		Request: &policy.Request{}, Program: &policy.Program{},
	}
	return &verifier{evaluator: e, checks: imageverify.Verifier{Call: call}}
}

// Attestors that signed are counted; an inconclusive check is an error. Each check is made once, and after the first signature it uses
// that digest.
func TestVerifierCounts(t *testing.T) {
	for _, c := range []struct {
		by    string
		n     int
		err   string
		asked string
	}{
		{"a stranger", 1, "", "a ghcr.io/x:1 []; stranger ghcr.io/x:1@" + testDigest + " []"},
		{"a a", 2, "", "a ghcr.io/x:1 []"},
		{"stranger+a", 1, "", "stranger ghcr.io/x:1 []; a ghcr.io/x:1 []"},
		{"stranger+outage", 0, "connection refused", "stranger ghcr.io/x:1 []; outage ghcr.io/x:1 []"},
		{"outage+stranger", 0, "connection refused", "outage ghcr.io/x:1 []; stranger ghcr.io/x:1 []"},
		{"a b", 1, "", "a ghcr.io/x:1 []; b ghcr.io/x:1@" + testDigest + " []"},
		{"nobody", 0, "", ""},
		{"elsewhere", 1, "", "elsewhere ghcr.io/x:1 [s]rp"},
		{"", 0, "", ""},
		{"unknown", 0, "attestor not found in policy: unknown", ""},
	} {
		w := &witness{}
		v := verifierOf(world.World{Signatures: w})
		n, err := v.Signed(t.Context(), "ghcr.io/x:1", strings.Fields(c.by))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if n != c.n || got != c.err || strings.Join(w.asked, "; ") != c.asked {
			t.Errorf("%d %q %s\nwant %+v", n, got, strings.Join(w.asked, "; "), c)
		}
		if verified, tried := v.verified["ghcr.io/x:1"]; verified != (c.n > 0) || tried != (c.err == "") {
			t.Errorf("verified %v, tried %v of %+v", verified, tried, c)
		}
	}
	if _, err := verifierOf(world.World{}).Signed(t.Context(), "x", []string{"a"}); !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("where nothing is verified: %v", err)
	}
	if _, err := verifierOf(world.World{Signatures: &witness{}}).Signed(t.Context(), "A B", []string{"a"}); err == nil {
		t.Error("what is no reference is verified")
	}
}

// In-toto statements are read after they were verified; referrers of the image are read without verification, unless they were verified.
func TestVerifierStatements(t *testing.T) {
	v := verifierOf(world.World{Signatures: &witness{}})
	if _, err := v.Payload(t.Context(), "x:1", "intoto"); err == nil || !strings.Contains(err.Error(), "before verifying") {
		t.Errorf("an unverified statement: %v", err)
	}
	if n, err := v.Attested(t.Context(), "x:1", "intoto", []string{"a", "stranger"}); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if p, err := v.Payload(t.Context(), "x:1", "intoto"); p != "slsa of docker.io/x:1" || err != nil {
		t.Errorf("%v, %v", p, err)
	}
	if n, err := v.Attested(t.Context(), "x:1", "referrer", []string{"a"}); n != 0 || err != nil {
		t.Errorf("cosign signs referrers: %d, %v", n, err)
	}
	if p, err := v.Payload(t.Context(), "x:1", "referrer"); p != "sbom of docker.io/x:1@"+testDigest || err != nil {
		t.Errorf("%v, %v", p, err)
	}
	if n, err := v.Attested(t.Context(), "x:1", "none", []string{"a"}); n != 0 || err != nil {
		t.Errorf("no statement: %d, %v", n, err)
	}
	if all, err := v.Payloads(t.Context(), "x:1", "intoto", "a"); fmt.Sprint(all) != "[slsa of docker.io/x:1]" || err != nil {
		t.Errorf("the statements of a signer: %v, %v", all, err)
	}
	if all, err := v.Payloads(t.Context(), "x:1", "intoto", "stranger"); len(all) != 0 || err != nil {
		t.Errorf("the statements of a stranger: %v, %v", all, err)
	}
	if _, err := v.Payload(t.Context(), "x:1", "absent"); err == nil {
		t.Error("a referrer that is not there is read")
	}
}
