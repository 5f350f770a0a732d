// Package sigcache remembers a verifier's answers about the signatures of images. The verifier itself merges identical requests that arrive
// at the same time.
//
//	signatures := sigcache.New(verifier, sigcache.Options{Size: 1000, TTL: time.Hour, Now: time.Now})
//	digest, err := signatures.Verify(ctx, request)   // reads request.For, the requester; sets *request.Remembered, the source of the answer
//
// The cache remembers an answer only for a digest, never for a tag, and only for the same requester: the policy, its version, its rule and
// the whole request. It remembers that an image is not signed for half a minute to a minute, since the image may be signed soon. It does
// not remember inconclusive verifications. It stores statements with the answer, so that conditions are evaluated each time.
//
// Floor 4: imports value and world.
package sigcache
