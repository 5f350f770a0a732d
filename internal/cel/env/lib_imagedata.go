package env

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/world"
)

// libImageData queries world.Images, which is restricted to the policy's Reach.
var libImageData = &Library{
	Name:  "imagedata",
	Doc:   "Image metadata from registries.",
	Kinds: everyPolicy,
	Asks:  true,
	Functions: []Function{{
		Names:     []string{"image.getMetadata", "image.GetMetadata"},
		Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: cel.DynType}},
		Doc:       "Reads the metadata of an image from its registry. The result has the fields image, resolvedImage, registry, repository, tag, digest, imageIndex, manifest and config.",
		Example:   "image.getMetadata('ghcr.io/team/app:1').config.config.User",
		Result:    `"1000"`,
		cost:      queryCost,
		call:      getMetadata,
	}},
}

// getMetadata is the call of the functions that read the metadata of an image.
func getMetadata(e *Scope, args []ref.Val) ref.Val {
	v, err := e.metadata(values.Text(args[0]))
	if err != nil {
		return e.unanswered("failed to get image data", err)
	}
	return e.answer(v)
}

// metadata returns the metadata of an image in its registry, with the field names of CEL policies.
func (e *Scope) metadata(reference string) (map[string]any, error) {
	if e.world().Images.Image == nil {
		return nil, fmt.Errorf("registries are %w", world.ErrUnavailable)
	}
	request := e.Registry
	request.Reference = reference
	found, err := e.world().Images.Image(e.Context(), request)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for from, to := range metadataNames {
		if v, ok := found[from]; ok && v != nil {
			out[to] = v
		}
	}
	if _, known := out["digest"]; !known {
		resolved, _ := found["resolvedImage"].(string)
		if _, digest, ok := strings.Cut(resolved, "@"); ok {
			out["digest"] = digest
		}
	}
	if _, known := out["tag"]; !known {
		if parsed, err := parseImage(reference); err == nil && parsed.tagOr() != "" {
			out["tag"] = parsed.tagOr()
		}
	}
	return out, nil
}

// metadataNames maps the fields in the answers of world.Images to the names in CEL policies.
var metadataNames = map[string]string{
	"image": "image", "resolvedImage": "resolvedImage", "registry": "registry", "repository": "repository", "tag": "tag", "digest": "digest",
	"manifestList": "imageIndex", "imageIndex": "imageIndex", "manifest": "manifest", "configData": "config", "config": "config",
}
