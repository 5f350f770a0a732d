package loader

import (
	"fmt"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/world"
)

var imageRegistry = Loader{
	Field: "imageRegistry",
	Doc:   "The data of an image in a registry: image, resolvedImage, registry, repository, identifier, manifestList, manifest and configData.",
	Examples: []Example{
		{"The user of an image, with the credentials of a Secret", `name: user
imageRegistry:
  reference: "{{ element.image }}"
  jmesPath: configData.config.User
  imageRegistryCredentials:
    allowInsecureRegistry: false
    providers: [amazon]
    secrets: [registry-credentials]
`},
	},
	Owns:    func(e *kyvernov1.ContextEntry) bool { return e.ImageRegistry != nil },
	compile: compileImageRegistry,
}

func compileImageRegistry(e *kyvernov1.ContextEntry, in input) compiled {
	c := compiled{allowance: in.allowance}
	c.reads.Needs.Lookups, c.reads.Needs.Registries = true, true
	ref, entry := e.ImageRegistry, e.Name
	if ref.Reference == "" {
		c.diags.Errorf(in.path+".reference", "a ref is required for imageRegistry context entry")
		c.diags.Hint("add imageRegistry.reference, such as \"{{ element.image }}\"")
	}
	reference := c.text(ref.Reference, in.path+".reference")
	if text, static := reference.Static(); static && text != "" {
		if _, err := imageref.Parse(text.(string)); err != nil {
			c.diags.Errorf(in.path+".reference", "bad image: %s: %v", text, err)
			c.diags.Hint("write [registry/]name[:tag][@digest], in small letters, such as ghcr.io/shop/web:1.4")
		}
	}
	q := c.query(entry, ref.JMESPath, in.path+".jmesPath")
	var request world.ImageRequest
	if credentials := ref.ImageRegistryCredentials; credentials != nil {
		request.Insecure, request.Secrets = credentials.AllowInsecureRegistry, credentials.Secrets
		for _, p := range credentials.Providers {
			request.Providers = append(request.Providers, string(p))
		}
	}
	if c.diags.HasErrors() {
		return c
	}
	c.load = func(before *scope.Scope) (any, error) {
		r := request
		var err error
		if r.Reference, err = substitute(entry, reference, before); err != nil {
			return nil, err
		}
		images := before.Env.World.Images
		if images.Image == nil {
			return nil, fmt.Errorf("failed to fetch image descriptor: %s: image registries are %w", r.Reference, world.ErrUnavailable)
		}
		data, err := images.Image(before.Env.Meter.Context(), r)
		if err != nil {
			return nil, fmt.Errorf("failed to fetch image descriptor: %s: %w", r.Reference, err)
		}
		return q.apply(before, data)
	}
	return c
}
