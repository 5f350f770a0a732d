package imageverify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// Resolve finds the digest of an image's tag, once in each review; credentials are used to log in.
func Resolve(c *policy.Call, image *imageref.Image, credentials world.ImageRequest) (string, error) {
	credentials.Confined = c.Program != nil && c.Program.Namespace != ""
	return Digest(c.Context(), c.Request.Tags(), c.World, image.String(), credentials)
}

// Digest asks the registry for the digest of a reference, unless the review has asked before. Answers without TLS, and answers for a
// namespaced policy, are not reused for others.
func Digest(ctx context.Context, tags *policy.Tags, w world.World, image string, credentials world.ImageRequest) (string, error) {
	key := image
	if credentials.Insecure {
		key += " insecure"
	}
	if credentials.Confined {
		key += " confined"
	}
	return tags.Digest(key, func() (string, error) { return askDigest(ctx, w, image, credentials) })
}

// askDigest sends the request to the registry.
func askDigest(ctx context.Context, w world.World, image string, credentials world.ImageRequest) (string, error) {
	images := w.Images
	if images.Image == nil {
		return "", errRegistries
	}
	credentials.Reference = image
	if images.Digest != nil {
		return images.Digest(ctx, credentials)
	}
	data, err := images.Image(ctx, credentials)
	if err != nil {
		return "", err
	}
	resolved, _ := data["resolvedImage"].(string)
	_, digest, ok := strings.Cut(resolved, "@")
	if !ok {
		return "", fmt.Errorf("the registry gave no digest for %s", image)
	}
	return digest, nil
}

// Pin returns the object with the digest added to the reference of the image. It does not change the object itself, but sets the digest of
// image.
func Pin(c *policy.Call, object map[string]any, image *imageref.Image, digest string) (map[string]any, error) {
	if image.Converted {
		return nil, errConverted
	}
	pinned := image.Reference
	pinned.Digest = digest
	if _, err := c.Images.Parse(pinned.String()); err != nil {
		return nil, err
	}
	made, err := patch.ApplyJSON(c.Meter, object, []patch.Operation{{Op: "replace", Path: image.Pointer, Value: pinned.String()}})
	if err != nil {
		return nil, err
	}
	out, ok := made.(map[string]any)
	if !ok {
		return nil, errNotAnObject
	}
	image.Digest = digest
	return out, nil
}

var (
	errConverted   = errors.New("the place of the reference is not known, since a jmesPath made it")
	errNotAnObject = errors.New("the patch leaves no object behind")
)
