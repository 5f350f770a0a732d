// Package imageverify verifies images: who signed them, which statements exist about them, and what the digests of their tags are. It knows no
// API types and no language, so that every kind of policy about images asks through it.
//
//	verifier := imageverify.Verifier{Call: call, Registry: credentials, For: imageverify.Asker(program, rule)}
//	image := imageverify.NewImage(found)
//	err := verifier.Verify(ctx, &image, ".attestors[0]", world.SignatureRequest{Format: imageverify.FormatCosign, Attestor: attestor}, nil)
//	object, err = verifier.Pin(object, &image)
//
// A Verifier belongs to one evaluation. It makes each check of an image once (verifier.go), resolves a tag once in a review and adds the
// digest to it (pin.go), and records what attestors answered (describe.go). How many attestors must sign is the business of the languages:
// sets of attestors in internal/rule, expressions in family/imagevalidating. Both warn of attestors that no signature, or every signature,
// satisfies (mistake.go).
//
// Requests go through world.Images and world.Signatures, which confine namespaced policies. The package sends no requests itself, and checks
// no signature.
//
// Floor 2: imports policy and leaves.
package imageverify
