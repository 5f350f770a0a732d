// Package imageref reads image references.
//
//	r, err := imageref.Parse("ghcr.io/team/app:1.2")
//	r.Registry, r.Path, r.Name, r.Tag // ghcr.io, team/app, app, 1.2
//
//	d := imageref.Defaults{}                       // the registry of references that name none
//	images, err := d.Find("Deployment", object)    // the images of its containers
//	imageref.Document(images)                      // what the variable `images` holds
//	d.Extract(extractors, customResource, convert) // those of a kind that only a rule's imageExtractors know
//
// A reference without registry is one of docker.io, one without tag and digest has the tag latest. Unlike Docker, and
// like the reference, it does not add library/. The package talks to no registry.
//
// Floor 0 (leaf): imports value.
package imageref
