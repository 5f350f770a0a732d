// Package policyartifact stores policies in registries and reads them again, in the form that Kyverno's `oci` commands use: one layer of YAML for
// each policy, with its kind, name and version in annotations.
//
//	digest, err := policyartifact.Push(ctx, client, "ghcr.io/team/policies:1", files)
//	files, err := policyartifact.Pull(ctx, client, "ghcr.io/team/policies:1")
//
// A layer is read up to MaxLayer bytes, an artifact up to MaxLayers layers. The package does not know what a policy is.
//
// Floor 4: imports registry and world.
package policyartifact
