// Package imageref parses image references and finds them in objects.
//
//	r, err := imageref.Parse("ghcr.io/team/app:1.2")
//	r.Registry, r.Path, r.Name, r.Tag // ghcr.io, team/app, app, 1.2
//
//	d := imageref.Defaults{}                       // the registry for references without one
//	images, err := d.Find("Deployment", object)    // the images of its containers
//	imageref.Document(images)                      // the value of the variable `images`
//	d.Extract(extractors, customResource, convert) // the images at places that only a rule's imageExtractors define
//
//	d.Canonical(r)                       // equal for all spellings of an image, such as nginx and docker.io/library/nginx
//	d.Spellings(r)                       // the texts that the forms of a pattern are compared with
//	imageref.Patterns("ghcr.io/*", "*?") // the forms of a pattern
//
// A reference without a registry belongs to docker.io; one without tag and digest has the tag latest. As in Kyverno, and unlike in
// Docker, library/ is not added, except in the canonical form. The package talks to no registry.
//
// Floor 0 (leaf): imports value.
package imageref
