package imageverify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/world"
)

// digest asks the registry for the digest of a reference, unless the review has asked before. Answers without TLS, and answers for a
// namespaced policy, are not reused for others.
func (v *Verifier) digest(ctx context.Context, image string) (string, error) {
	r, key := v.Registry, image
	r.Reference = image
	if r.Insecure {
		key += " insecure"
	}
	if r.Confined = v.Call.Program != nil && v.Call.Program.Namespace != ""; r.Confined {
		key += " confined"
	}
	return v.Call.Request.Tags().Digest(key, func() (string, error) { return askDigest(ctx, v.Call.World.Images, r) })
}

// askDigest sends the request to the registry.
func askDigest(ctx context.Context, images world.Images, r world.ImageRequest) (string, error) {
	if images.Image == nil {
		return "", errRegistries
	}
	if images.Digest != nil {
		return images.Digest(ctx, r)
	}
	data, err := images.Image(ctx, r)
	if err != nil {
		return "", err
	}
	resolved, _ := data["resolvedImage"].(string)
	_, digest, ok := strings.Cut(resolved, "@")
	if !ok {
		return "", fmt.Errorf("the registry gave no digest for %s", r.Reference)
	}
	return digest, nil
}

// Pin returns the object with the digest added to the tag of the image. It does not change the object itself, but sets the digest of image.
func (v *Verifier) Pin(object map[string]any, image *Image) (map[string]any, error) {
	if image.Converted {
		return nil, errConverted
	}
	if err := v.Resolve(v.Call.Context(), image); err != nil {
		return nil, err
	}
	pinned := image.Reference
	pinned.Digest = image.Known
	if _, err := v.Call.Images.Parse(pinned.String()); err != nil {
		return nil, err
	}
	made, err := patch.ApplyJSON(v.Call.Meter, object, []patch.Operation{{Op: "replace", Path: image.Pointer, Value: pinned.String()}})
	if err != nil {
		return nil, err
	}
	out, ok := made.(map[string]any)
	if !ok {
		return nil, errNotAnObject
	}
	image.Reference = pinned
	return out, nil
}

var (
	errConverted   = errors.New("the place of the reference is not known, since a jmesPath made it")
	errNotAnObject = errors.New("the patch leaves no object behind")
)
