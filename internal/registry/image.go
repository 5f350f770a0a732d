package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"ephor.invalid/ephor/internal/fetch"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Lookups returns the lookups of package world.
func (c *Client) Lookups() world.Images { return world.Images{Image: c.Image, Digest: c.Digest} }

// Image returns the data of an image.
func (c *Client) Image(ctx context.Context, req world.ImageRequest) (map[string]any, error) {
	s, err := c.Open(ctx, Ask{Image: req})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	data, err := describe(s, req.Platform)
	if err != nil {
		return nil, s.Explain(err)
	}
	data["image"] = req.Reference
	return data, nil
}

// Digest resolves a tag. If a registry does not answer a HEAD request, it requests the manifest.
func (c *Client) Digest(ctx context.Context, req world.ImageRequest) (string, error) {
	s, err := c.Open(ctx, Ask{Image: req})
	if err != nil {
		return "", err
	}
	defer s.Close()
	if d, err := remote.Head(s.Image, s.Options()...); err == nil {
		return d.Digest.String(), nil
	}
	d, err := remote.Get(s.Image, s.Options()...)
	if err != nil {
		return "", missing(s.Explain(err))
	}
	return d.Digest.String(), nil
}

// missing converts the error of a registry that has no such manifest. Any other error leaves open whether there is one.
func missing(err error) error {
	if answer := (*transport.Error)(nil); errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return &world.NoImageError{Reason: err.Error()}
	}
	return err
}

// Explain removes the address of each request from an error, and adds to a denial by the registry which credentials could not be used.
func (s *Session) Explain(err error) error {
	var denied *transport.Error
	without := s.keys.missing()
	if !errors.As(err, &denied) || denied.StatusCode != http.StatusUnauthorized && denied.StatusCode != http.StatusForbidden || len(without) == 0 {
		return fetch.Bare(err)
	}
	return fmt.Errorf("%w (%s)", fetch.Bare(err), strings.Join(without, "; "))
}

// usual is the platform whose image represents an index, as in Kyverno.
var usual = v1.Platform{OS: "linux", Architecture: "amd64"}

// describe returns the data of an image for context entries. The manifest and the configuration of an index are those of its image for
// the platform of the object, otherwise for linux/amd64, otherwise of its first image.
func describe(s *Session, platform string) (map[string]any, error) {
	ref := s.Image
	d, err := remote.Get(ref, s.Options()...)
	if err != nil {
		return nil, err
	}
	out := map[string]any{
		"resolvedImage": ref.Context().Name() + "@" + d.Digest.String(),
		"registry":      ref.Context().RegistryStr(),
		"repository":    ref.Context().RepositoryStr(),
		"identifier":    ref.Identifier(),
		"manifestList":  nil,
	}
	var image v1.Image
	if d.MediaType.IsIndex() {
		if out["manifestList"], err = decoded("manifest list", d.Manifest, nil); err != nil {
			return nil, err
		}
		image, err = child(d, platform)
	} else {
		image, err = d.Image()
	}
	if err != nil {
		return nil, err
	}
	manifest, err := image.RawManifest()
	if out["manifest"], err = decoded("manifest", manifest, err); err != nil {
		return nil, err
	}
	config, err := image.RawConfigFile()
	if out["configData"], err = decoded("configuration", config, err); err != nil {
		return nil, err
	}
	return out, nil
}

// child returns the image that represents an index.
func child(d *remote.Descriptor, platform string) (v1.Image, error) {
	index, err := d.ImageIndex()
	if err != nil {
		return nil, err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	wanted := []v1.Platform{usual}
	if p, err := v1.ParsePlatform(platform); err == nil && platform != "" {
		wanted = []v1.Platform{*p, usual}
	}
	for _, p := range wanted {
		for _, m := range list.Manifests {
			if isImage(m) && m.Platform != nil && m.Platform.Satisfies(p) {
				return index.Image(m.Digest)
			}
		}
	}
	for _, m := range list.Manifests {
		if isImage(m) {
			return index.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("no image is in the index of %d manifests", len(list.Manifests))
}

// isImage distinguishes images in an index from other entries, such as the attestations of BuildKit.
func isImage(m v1.Descriptor) bool {
	attests := m.Annotations["vnd.docker.reference.type"] != ""
	return m.MediaType.IsImage() && !attests && (m.Platform == nil || m.Platform.OS != "unknown")
}

// decoded decodes JSON from a registry.
func decoded(what string, text []byte, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	v, err := value.DecodeJSON(text)
	if err != nil {
		return nil, fmt.Errorf("the %s of the image cannot be read: %w", what, err)
	}
	return v, nil
}
