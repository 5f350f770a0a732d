// Package sigcache remembers what a verifier answered about signatures of images. The verifier itself answers those together who ask the same
// at the same time.
//
//	signatures := sigcache.New(verifier, sigcache.Options{Size: 1000, TTL: time.Hour, Now: time.Now})
//	digest, err := signatures.Verify(ctx, request)   // request.For says on whose behalf, and *request.Remembered where the answer is from
//
// An answer is remembered of a digest only, never of a tag, and for those who asked: the policy, its version, its rule and the whole
// question. That an image is not signed is remembered for half a minute to a minute, since it may be signed soon; that something could
// not be found out is not remembered at all. Statements are remembered with the answer, so that conditions are evaluated each time.
//
// Floor 4: imports value and world.
package sigcache
