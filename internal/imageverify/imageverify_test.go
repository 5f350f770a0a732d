package imageverify

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// notary knows signatures by every key but the one named bad, and one statement.
type notary struct{ asked []string }

func (n *notary) Verify(_ context.Context, r world.SignatureRequest) (string, error) {
	n.asked = append(n.asked, r.Attestor.Key.PublicKey+"@"+r.Image)
	switch r.Attestor.Key.PublicKey {
	case "bad":
		return "", &world.UnverifiedError{Reason: "no signature"}
	case "outage":
		return "", errors.New("connection refused")
	case "moved":
		return strings.Repeat("b", 3), nil
	}
	return digest, nil
}

func (n *notary) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	return digest, []world.Statement{{Type: "sbom", Predicate: "good"}, {Type: "other", Predicate: "bad"}}, nil
}

// plain is a language without variables.
type plain struct {
	plan *Plan
	used int
}

func (p *plain) ImagesOf(policy.Variables, map[string]any) ([]imageref.Image, error) { return nil, nil }
func (p *plain) Begin(policy.Variables, int, *imageref.Image) Session                { return p }
func (p *plain) Plan() (*Plan, error)                                                { return p.plan, nil }
func (p *plain) Validate() policy.Yield                                              { return policy.Yield{} }

func (p *plain) Examine(_ int, statements []world.Statement) (func(), error) {
	for _, s := range statements {
		if s.Predicate != "good" {
			return nil, errors.New("a bad statement")
		}
	}
	return func() { p.used++ }, nil
}

func callOn(object map[string]any, n *notary) *policy.Call {
	return &policy.Call{
		Env: &evalenv.Env{
			Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes),
			World: world.World{Signatures: n, Images: world.Images{Image: func(_ context.Context, r world.ImageRequest) (map[string]any, error) {
				return map[string]any{"resolvedImage": r.Reference + "@" + digest}, nil
			}}},
		},
		Request: &policy.Request{Review: policy.Review{Operation: policy.Create, Object: value.Of(object)}},
		Program: &policy.Program{Name: "p"}, Rule: &policy.Rule{Name: "r", Stage: policy.StageVerifyImages | policy.StageValidate},
		Stages: policy.StageVerifyImages,
	}
}

func signer(key string) Signer {
	return Signer{Path: key, Attestor: &world.Attestor{Key: &world.KeyAttestor{PublicKey: key}}}
}

// A rule without a language of its own verifies images, pins and records them, and then requires that.
func TestRule(t *testing.T) {
	for _, c := range []struct {
		name   string
		plan   Plan
		verify string
		used   int
	}{
		{"signed", Plan{Attestors: []Set{{Required: 1, Entries: []Signer{signer("bad"), signer("a")}}}}, "pass: verified image signatures for ghcr.io/x:1", 0},
		{"unsigned", Plan{Attestors: []Set{{Required: 1, Entries: []Signer{signer("bad")}}}}, "fail: failed to verify image ghcr.io/x:1: bad: no signature", 0},
		{"no signers", Plan{Attestors: []Set{{Path: ".set"}}}, "error: failed to verify image ghcr.io/x:1: .set: An entry is required", 0},
		{"attested", Plan{Attestations: []Attestation{{Type: "sbom"}}}, "pass: verified image attestations for ghcr.io/x:1", 1},
		{"not attested", Plan{Attestations: []Attestation{{Type: "vex"}}},
			"fail: image attestations verification failed, verifiedCount: 0, requiredCount: 1, error: attestations not found for predicate type vex", 0},
		{"badly attested", Plan{Attestations: []Attestation{{Type: "other"}}},
			"error: image attestations verification failed, verifiedCount: 0, requiredCount: 1, error: a bad statement", 0},
	} {
		language := &plain{plan: &c.plan}
		rule := &Rule{Name: "r", Language: language, Entries: []*Entry{{
			References: NewReferences([]string{"ghcr.io/*"}, nil), Verifies: true, MutateDigest: true, VerifyDigest: true, Required: true,
		}}}
		object := map[string]any{"spec": map[string]any{"image": "ghcr.io/x:1"}}
		images := func(o map[string]any) []imageref.Image {
			reference, err := imageref.Defaults{}.Parse(o["spec"].(map[string]any)["image"].(string))
			if err != nil {
				t.Fatal(err)
			}
			return []imageref.Image{{Reference: reference, Pointer: "/spec/image"}}
		}
		call := callOn(object, &notary{})
		y := rule.Evaluate(call, nil, images(object))
		if got := y.Status.String() + ": " + y.Message; got != c.verify || language.used != c.used {
			t.Errorf("%s: %s, used %d", c.name, got, language.used)
		}
		made := object
		if y.Object != nil {
			made, _ = y.Object.Map()
		}
		good := strings.HasPrefix(c.verify, "pass")
		if pinned := images(made)[0].Digest == digest; pinned != good {
			t.Errorf("%s: a digest was written: %v", c.name, pinned)
		}
		call = callOn(made, nil)
		call.Stages = policy.StageValidate
		if y := rule.Evaluate(call, nil, images(made)); (y.Status == policy.StatusPass) != good {
			t.Errorf("%s: required: %s %s", c.name, y.Status, y.Message)
		}
		if images(object)[0].Digest != "" {
			t.Errorf("%s: the object of the request was changed", c.name)
		}
	}
}

// T22: a namespaced policy gets no digest that a cluster-wide policy of the same request read with the login of the installation.
func TestT22DigestsAreNotShared(t *testing.T) {
	c := callOn(map[string]any{}, nil)
	reference, err := imageref.Defaults{}.Parse("nginx")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	c.World.Images.Image = func(context.Context, world.ImageRequest) (map[string]any, error) {
		asked++
		return map[string]any{"resolvedImage": "index.docker.io/library/nginx@" + digest}, nil
	}
	for _, p := range []struct {
		namespace string
		asked     int
	}{{"", 1}, {"", 1}, {"team", 2}, {"team", 2}} {
		c.Program = &policy.Program{Namespace: p.namespace}
		image := NewImage(imageref.Image{Reference: reference, Pointer: "/spec/image"})
		if err := (&Verifier{Call: c}).Resolve(t.Context(), &image); err != nil || asked != p.asked {
			t.Errorf("in the namespace %q: %d requests, want %d; %v", p.namespace, asked, p.asked, err)
		}
	}
}

// A digest is added to the reference, in a copy of the object.
func TestPin(t *testing.T) {
	c := callOn(map[string]any{}, nil)
	object := map[string]any{"spec": map[string]any{"image": "nginx", "other": "nginx"}}
	reference, err := imageref.Defaults{}.Parse("nginx")
	if err != nil {
		t.Fatal(err)
	}
	image := NewImage(imageref.Image{Reference: reference, Pointer: "/spec/image"})
	verifier := Verifier{Call: c}
	if err := verifier.Resolve(t.Context(), &image); err != nil || image.Known != digest {
		t.Fatal(image.Known, err)
	}
	made, err := Pin(c, object, &image.Image, image.Known)
	spec, _ := made["spec"].(map[string]any)
	if err != nil || spec["image"] != reference.String()+"@"+digest || spec["other"] != "nginx" || image.Digest != digest {
		t.Errorf("%v, %v, %v", made, image.Digest, err)
	}
	if object["spec"].(map[string]any)["image"] != "nginx" {
		t.Error("the object was changed")
	}
	if _, err := Pin(c, object, &imageref.Image{Reference: reference, Pointer: "/spec/nothing"}, digest); err == nil {
		t.Error("a digest was written where no reference is")
	}
	if _, err := Pin(c, object, &imageref.Image{Reference: reference, Pointer: "/spec/image", Converted: true}, digest); err == nil {
		t.Error("a digest was written where the place is not known")
	}
	c.World.Images = world.Images{}
	reference.Tag = "other"
	other := NewImage(imageref.Image{Reference: reference})
	if err := verifier.Resolve(t.Context(), &other); !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("without registries: %v", err)
	}
}

func (*notary) Blob(context.Context, world.BlobRequest) (string, error) {
	return "", world.ErrUnavailable
}
