// Package imagevalidating is the family of ImageValidatingPolicy and NamespacedImageValidatingPolicy of policies.kyverno.io: policies about
// the images of objects, their metadata, signatures and attestations.
//
//	program := imagevalidating.Family.Compile(family.Source{Object: object})
//
// A Program has one rule for the policy and one for each configuration of controllers of Pods that is generated from it, which validate
// (evaluate.go), and for requests as many that write digests behind tags (digest.go). Images are found in the fields of Pods and their
// controllers and by expressions (images.go); matchImageReferences select some of them (references.go). Expressions count the attestors
// that signed an image; what they ask is answered by imageverify.Panel (attestors.go, verifier.go).
//
// It verifies no signature by itself. Where world.Signatures is nil, a policy that asks for signatures ends in an error.
//
// Floor 2: imports celpolicy, celrule, imageverify, policy, api and leaves.
package imagevalidating
