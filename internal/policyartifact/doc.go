// Package policyartifact stores policies in registries and reads them again, in the form that Kyverno's `oci` commands use: one layer of
// YAML for each policy, with its kind, name and version in annotations.
//
//	digest, err := policyartifact.Push(ctx, client, "ghcr.io/team/policies:1", files)
//	files, err := policyartifact.Pull(ctx, client, "ghcr.io/team/policies:1")
//
// It reads layers of at most MaxLayer bytes, and artifacts of at most MaxLayers layers. It does not interpret policies.
//
// Floor 4: imports registry and world.
package policyartifact
