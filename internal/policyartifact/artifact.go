package policyartifact

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/world"
)

// Media types and annotations of the artifacts.
const (
	configType types.MediaType = "application/vnd.cncf.kyverno.config.v1+json"
	layerType  types.MediaType = "application/vnd.cncf.kyverno.policy.layer.v1+yaml"

	annotationKind       = "io.kyverno.image.kind"
	annotationName       = "io.kyverno.image.name"
	annotationAPIVersion = "io.kyverno.image.apiVersion"
)

// The maximum number of layers that are read, and of bytes in one layer.
const (
	MaxLayers = 1000
	MaxLayer  = 1 << 20
)

// longest is the maximum time for one artifact: each of its layers takes requests of its own.
const longest = 10 * time.Minute

// Scheme is the prefix of an artifact's reference, to distinguish it from other sources.
const Scheme = "oci://"

// Machine returns a client with the credentials of this machine: Docker's configuration, and the identity that a cloud provides.
func Machine() (*registry.Client, error) {
	return registry.New(registry.Options{Providers: []string{"default", "google", "amazon", "azure", "github"}})
}

// File is one policy.
type File struct {
	APIVersion, Kind, Name string
	Content                []byte // YAML
}

// Push stores the files as one artifact, and returns its digest.
func Push(ctx context.Context, client *registry.Client, reference string, files []File) (string, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), configType)
	for _, f := range files {
		var err error
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:       static.NewLayer(f.Content, layerType),
			Annotations: map[string]string{annotationAPIVersion: f.APIVersion, annotationKind: f.Kind, annotationName: f.Name},
		})
		if err != nil {
			return "", err
		}
	}
	// Each layer, the configuration and the manifest take a check and an upload, with a login and redirects.
	session, err := client.Open(ctx, registry.Ask{Image: world.ImageRequest{Reference: reference}, Requests: 8*len(files) + 32, Timeout: longest})
	if err != nil {
		return "", err
	}
	defer session.Close()
	if err := remote.Write(session.Image, image, session.Options()...); err != nil {
		return "", err
	}
	digest, err := image.Digest()
	return digest.String(), err
}

// Pull reads the files of an artifact, in order.
func Pull(ctx context.Context, client *registry.Client, reference string) ([]File, error) {
	session, err := client.Open(ctx, registry.Ask{Image: world.ImageRequest{Reference: reference}, Requests: 4*MaxLayers + 32, Timeout: longest})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	image, err := remote.Image(session.Image, session.Options()...)
	if err != nil {
		return nil, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Layers) > MaxLayers {
		return nil, fmt.Errorf("the artifact has %d layers; at most %d are read", len(manifest.Layers), MaxLayers)
	}
	var files []File
	for i, layer := range manifest.Layers {
		if layer.MediaType != layerType {
			return nil, fmt.Errorf("layer %d is of type %s, and not of %s: this artifact does not hold policies", i, layer.MediaType, layerType)
		}
		content, err := read(image, layer)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		files = append(files, File{
			APIVersion: layer.Annotations[annotationAPIVersion], Kind: layer.Annotations[annotationKind], Name: layer.Annotations[annotationName], Content: content,
		})
	}
	if len(files) == 0 {
		return nil, errors.New("the artifact holds no policies")
	}
	return files, nil
}

// read reads the stored bytes of a layer. The registry client verifies their digest.
func read(image v1.Image, of v1.Descriptor) ([]byte, error) {
	if of.Size > MaxLayer {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", of.Size, MaxLayer)
	}
	layer, err := image.LayerByDigest(of.Digest)
	if err != nil {
		return nil, err
	}
	in, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return bounded.Read(in, MaxLayer)
}
