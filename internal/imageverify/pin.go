package imageverify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/patch"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/world"
)

// Resolve finds the digest that the tag of an image stands for, once in each review; credentials say how to log in.
func Resolve(c *policy.Call, image *imageref.Image, credentials world.ImageRequest) (string, error) {
	return Digest(c.Context(), c.Request.Tags(), c.World, image.String(), credentials)
}

// Digest asks the registry for the digest that a reference stands for, unless the review asked before. What a registry said without TLS, or
// a namespaced policy found, does not count for others.
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

// askDigest asks the registry.
func askDigest(ctx context.Context, w world.World, image string, credentials world.ImageRequest) (string, error) {
	images := w.Images
	if images == nil {
		return "", errRegistries
	}
	credentials.Reference = image
	if d, ok := images.(world.Digests); ok {
		return d.Digest(ctx, credentials)
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

// Pin returns the object with the digest written behind the reference of the image. The object itself stays as it is; the image
// has the digest from then on.
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
