// Package imageverify verifies the images of an object: who signed them, which statements exist about them, and whether they are
// referenced by digest. It knows no API types, so that every kind of policy about images can use it.
//
//	rule := &imageverify.Rule{Name: "signed", Entries: []*imageverify.Entry{{
//		References: imageverify.NewReferences([]string{"ghcr.io/team/*"}, nil), Verifies: true, MutateDigest: true, Required: true,
//	}}, Language: language}                               // it defines the required signers, and evaluates the statements
//	yield := rule.Evaluate(call, variables, images)
//
//	verifier, image := imageverify.Verifier{Call: call, Registry: credentials}, imageverify.NewImage(found)
//	err := verifier.Verify(ctx, &image, ".attestors[0]", world.SignatureRequest{Format: imageverify.FormatCosign, Attestor: attestor}, nil)
//	object, err = imageverify.Pin(call, object, &image.Image, image.Known)
//
// The mutating half of a rule (verify.go) verifies images, adds digests to tags and records in annotations what was verified; the
// validating half (require.go) only checks the object. Requests to registries go through world.Images and world.Signatures, which
// confine namespaced policies. The package sends no requests to registries itself, and checks no signature.
//
// Floor 2: imports policy and leaves.
package imageverify
