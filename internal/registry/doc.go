// Package registry asks OCI registries what they say about images.
//
//	client, err := registry.New(registry.Options{Providers: []string{"default"}, Secret: readSecret})
//	data, err := client.Image(ctx, world.ImageRequest{Reference: "nginx:1.27"})
//	data["resolvedImage"] // index.docker.io/library/nginx@sha256:…
//
//	session, err := client.Open(ctx, registry.Ask{…})    // for other questions about an image, such as its signatures
//	d, err := remote.Get(session.Image, session.Options()...)
//
// It logs in with pull secrets, with the docker configuration and credential helpers of this machine, and otherwise as
// an anonymous user; credentials go only to the registry that they are for. Options.Permit bounds the registries of namespaced policies. Everything read from a registry is bounded in size, time
// and number of requests, and verified against its digest. It does not verify signatures (package sigverify does), and
// remembers nothing: what a tag stands for may change.
//
// Floor 4: imports world and apicall, and is the only package that talks to registries for image data.
package registry
