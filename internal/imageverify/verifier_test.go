package imageverify

import (
	"errors"
	"slices"
	"testing"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// A check is made once and its answer is kept, with the digest to which all other checks must refer. What a statement must satisfy is
// examined each time.
func TestVerifier(t *testing.T) {
	n := &notary{}
	c := callOn(map[string]any{}, n)
	c.World.Images.Image = nil
	v := Verifier{Call: c}
	image := NewImage(imageref.Image{Reference: imageref.Reference{Registry: "ghcr.io", Path: "x", Tag: "1"}})
	attestors := map[string]*world.Attestor{}
	for _, key := range []string{"bad", "outage", "a", "moved"} {
		attestors[key] = &world.Attestor{Key: &world.KeyAttestor{PublicKey: key}}
	}
	for _, q := range []struct{ key, want string }{
		{"bad", "no signature"}, {"outage", "connection refused"}, {"a", ""}, {"moved", "digest mismatch: expected " + digest + ", received bbb"},
		{"bad", "no signature"}, {"outage", "connection refused"}, {"a", ""}, {"moved", "digest mismatch: expected " + digest + ", received bbb"},
	} {
		got := ""
		if err := v.Verify(t.Context(), &image, q.key, world.SignatureRequest{Attestor: attestors[q.key]}, nil); err != nil {
			got = err.Error()
		}
		if got != q.want {
			t.Errorf("%s: %q, want %q", q.key, got, q.want)
		}
	}
	if want := []string{"bad@ghcr.io/x:1", "outage@ghcr.io/x:1", "a@ghcr.io/x:1", "moved@ghcr.io/x:1@" + digest}; !slices.Equal(n.asked, want) {
		t.Errorf("asked %v\nwant  %v", n.asked, want)
	}
	var answers []policy.Status
	for _, a := range v.Answers {
		answers = append(answers, a.Status)
	}
	if want := []policy.Status{policy.StatusFail, policy.StatusError, policy.StatusPass, policy.StatusFail}; !slices.Equal(answers, want) || v.Answers[2].Image != "ghcr.io/x:1@"+digest {
		t.Errorf("answers %+v", v.Answers)
	}
	for _, want := range []error{nil, errors.New("not good")} {
		examined := 0
		err := v.Verify(t.Context(), &image, "", world.SignatureRequest{Type: "sbom"}, func(s []world.Statement) error {
			examined = len(s)
			return want
		})
		if !errors.Is(err, want) || examined != 2 || len(v.Answers) != len(answers) {
			t.Errorf("%v, %d statements, %d answers; want %v", err, examined, len(v.Answers), want)
		}
	}
	c.World.Signatures = nil
	if err := v.Verify(t.Context(), &image, "", world.SignatureRequest{Attestor: &world.Attestor{}}, nil); !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("where nothing is verified: %v", err)
	}
}
