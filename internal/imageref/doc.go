// Package imageref reads image references (language reference §7.7).
//
//	r, err := imageref.Parse("ghcr.io/team/app:1.2")
//	r.Registry, r.Path, r.Name, r.Tag // ghcr.io, team/app, app, 1.2
//
//	images, err := imageref.Of("Deployment", object) // what the variable `images` holds
//
// A reference without registry is one of docker.io, one without tag and digest has the tag latest. Unlike Docker, and
// like the reference, it does not add library/. The package talks to no registry.
//
// Floor 0 (leaf): imports nothing of ours.
package imageref
