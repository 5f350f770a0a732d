// Package imageverify verifies the images of an object: who signed them, what is attested of them, and whether they are named by
// digests. It knows no type of an API, so that every kind of policy about images uses it.
//
//	rule := &imageverify.Rule{Name: "signed", Entries: []*imageverify.Entry{{
//		References: imageverify.NewReferences([]string{"ghcr.io/team/*"}, nil), Verifies: true, MutateDigest: true, Required: true,
//	}}, Language: language}                               // it says who has to sign, and reads the statements
//	yield := rule.Evaluate(call, variables, images)
//
//	digest, err := imageverify.Resolve(call, image, credentials)
//	object, err = imageverify.Pin(call, object, &image, digest)
//
// The mutating half of a rule (verify.go) verifies images, writes digests behind tags and records in annotations what was verified;
// the validating half (require.go) looks at the object only. Registries are asked through world.Images and world.Signatures,
// which confine namespaced policies. The package asks no registry itself, and checks no signature.
//
// Floor 2: imports policy and leaves.
package imageverify
