// Package imagevalidating is the family of ImageValidatingPolicy and NamespacedImageValidatingPolicy of policies.kyverno.io: policies about
// the images of objects, their metadata, signatures and attestations.
//
//	program := imagevalidating.Family.Compile(family.Source{Object: object})
//
// A Program has one validating rule for the policy and one for each generated configuration of Pod controllers (evaluate.go). For requests
// it has an equal number of rules that add digests to tags (digest.go). Images are found in the fields of Pods and their controllers and by
// expressions (images.go); matchImageReferences select some of them (references.go). Expressions count the attestors that signed an image:
// attestors.go compiles them, and verifier.go asks imageverify.Verifier about each.
//
// It verifies no signature itself. Without world.Signatures, the evaluation of a policy that verifies signatures ends with an error.
//
// Floor 2: imports celpolicy, celrule, imageverify, policy, api and leaves.
package imagevalidating
