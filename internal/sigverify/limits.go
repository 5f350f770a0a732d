package sigverify

import "time"

// Limits for the data that is read for one image. They are all checked while reading, before anything is parsed.
const (
	maxRequests    = 64 // including logins and redirects
	maxSignatures  = 50 // for all kinds together
	maxReferrers   = 200
	maxManifest    = 1 << 20
	maxIndex       = 4 << 20
	maxPayload     = 1 << 20 // the payload of a signature, in bytes
	maxStatement   = 10_000_000
	maxNotary      = 10
	maxChain       = 11 // the number of certificates
	maxTSAChain    = 12
	maxTSABetween  = 10 // the number of certificates between the root and the leaf
	maxLogAnswer   = 1 << 20
	maxRead        = 40_000_000 // all content for one image, in bytes
	maxAnnotations = 256 << 10  // the annotations of one layer, in bytes
)

// Data that was read is cached for a short time, so that it is read once for all attestors, both webhooks and all Pods of a rollout.
const (
	keepImages    = 5 * time.Second
	maxImages     = 256
	maxImageBytes = 64 << 20
	keepHabits    = time.Hour
	maxHabits     = 4096
	parallel      = 4 // concurrent requests for one image
)
