package registry

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/ephor-dev/ephor/internal/value"
)

// platform is the one whose image stands for an index: what Kyverno takes.
var platform = v1.Platform{OS: "linux", Architecture: "amd64"}

// describe makes what context entries see of an image. The manifest and the configuration of an index are those of its
// image for linux/amd64.
func describe(ref name.Reference, ask []remote.Option) (map[string]any, error) {
	d, err := remote.Get(ref, append(ask, remote.WithPlatform(platform))...)
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
	if d.MediaType.IsIndex() {
		if out["manifestList"], err = decoded("manifest list", d.Manifest, nil); err != nil {
			return nil, err
		}
	}
	image, err := d.Image()
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

// decoded reads JSON that a registry gave.
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
