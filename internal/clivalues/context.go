package clivalues

import (
	"context"
	"fmt"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/world"
)

// Context is the content of a file of kind Context: the data for the libraries of CEL policies.
type Context struct {
	// Resources are the objects that the libraries read.
	Resources []map[string]any
	// Images has the data of images.
	Images world.Images
}

// ReadContext reads a file of kind Context. Integers stay integers, as in objects that are read from a cluster.
func ReadContext(path string) (*Context, diag.List) {
	var c v1alpha1.Context
	diags, err := fileOf(path, "context", source.Exact, &c)
	if err != nil {
		diags.Add(diag.Diagnostic{Pos: diag.Position{File: path}, Summary: "Object 'Kind' is missing",
			Hint: "begin it with `apiVersion: cli.kyverno.io/v1alpha1` and `kind: Context`"})
	}
	if diags.HasErrors() {
		return nil, diags
	}
	out, images := &Context{}, contextImages{}
	for i, o := range c.ContextSpec.Resources {
		object, ok := o.(map[string]any)
		if !ok {
			diags.Errorf(fmt.Sprintf("spec.resources[%d]", i), "a resource is an object")
			continue
		}
		out.Resources = append(out.Resources, object)
	}
	for i, o := range c.ContextSpec.Images {
		image, _ := o.(map[string]any)
		name, _ := image["image"].(string)
		if name == "" {
			diags.Errorf(fmt.Sprintf("spec.images[%d].image", i), "an image needs its reference")
			continue
		}
		images[name] = image
	}
	out.Images.Image = images.image
	return out, diags
}

// contextImages holds the data of images, by the references that policies use.
type contextImages map[string]map[string]any

// image returns the data of an image.
func (m contextImages) image(_ context.Context, r world.ImageRequest) (map[string]any, error) {
	if image, ok := m[r.Reference]; ok {
		return image, nil
	}
	return nil, fmt.Errorf("image data for %s not found in the context", r.Reference)
}
