package sigverify

import "time"

// Limits of what is read about one image. All are counted while reading, before anything is parsed.
const (
	maxRequests    = 64 // with logins and redirects
	maxSignatures  = 50 // of all kinds together
	maxReferrers   = 200
	maxManifest    = 1 << 20
	maxIndex       = 4 << 20
	maxPayload     = 1 << 20 // of a signature
	maxStatement   = 10_000_000
	maxNotary      = 10
	maxChain       = 11 // certificates
	maxTSAChain    = 12
	maxTSABetween  = 10 // certificates between the root and the leaf
	maxLogAnswer   = 1 << 20
	maxAnnotations = 256 << 10 // bytes of those of one layer
)

// What was read is kept for a moment, so that all attestors, both webhooks and all Pods of a roll-out ask only once.
const (
	keepImages    = 5 * time.Second
	maxImages     = 256
	maxImageBytes = 64 << 20
	keepHabits    = time.Hour
	maxHabits     = 4096
	parallel      = 4 // requests about one image
)
