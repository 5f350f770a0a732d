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

func callOn(object map[string]any, n *notary) *policy.Call {
	return &policy.Call{
		Env: &evalenv.Env{
			Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes),
			World: world.World{Signatures: n, Images: world.Images{Image: func(_ context.Context, r world.ImageRequest) (map[string]any, error) {
				return map[string]any{"resolvedImage": r.Reference + "@" + digest}, nil
			}}},
		},
		Request: &policy.Request{Review: policy.Review{Operation: policy.Create, Object: value.Of(object)}},
		Program: &policy.Program{Name: "p"},
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
	made, err := verifier.Pin(object, &image)
	spec, _ := made["spec"].(map[string]any)
	if err != nil || spec["image"] != reference.String()+"@"+digest || spec["other"] != "nginx" || image.Digest != digest {
		t.Errorf("%v, %v, %v", made, image.Digest, err)
	}
	if object["spec"].(map[string]any)["image"] != "nginx" {
		t.Error("the object was changed")
	}
	for _, elsewhere := range []imageref.Image{
		{Reference: reference, Pointer: "/spec/nothing"}, {Reference: reference, Pointer: "/spec/image", Converted: true},
	} {
		image := NewImage(elsewhere)
		if _, err := verifier.Pin(object, &image); err == nil {
			t.Errorf("a digest was written to %+v", elsewhere)
		}
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
