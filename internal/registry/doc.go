// Package registry reads data about images from OCI registries.
//
//	client, err := registry.New(registry.Options{Providers: []string{"default"}, Secret: readSecret})
//	data, err := client.Image(ctx, world.ImageRequest{Reference: "nginx:1.27"})
//	data["resolvedImage"] // index.docker.io/library/nginx@sha256:…
//
//	session, err := client.Open(ctx, registry.Ask{…})    // for other requests about an image, such as its signatures
//	d, err := remote.Get(session.Image, session.Options()...)
//
// It logs in with pull secrets (of the policy, of the object and its ServiceAccount, of the operator), with the identity that the process
// has in a cloud, with the docker configuration of this machine, and otherwise as an anonymous user. It sends credentials only to the
// registry that they are for. It caches a registry's way to log in, and the tokens of its login server, until shortly before they expire;
// it caches nothing else, because a tag may change its content. Options.Permit restricts the registries of namespaced policies.
// Everything read from a registry is bounded in size, time and number of requests, and verified against its digest. A request to a
// registry that is overloaded is repeated within the deadline. The package does not verify signatures: package sigverify does.
//
// Floor 4: imports world and apicall, and is the only package that talks to registries for image data.
package registry
