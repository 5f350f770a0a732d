// Package secretpath creates and checks the secret segments in the paths of webhooks.
//
//	epoch := secretpath.NewEpoch(key, "5d3f…")
//	path := epoch.Path("/validate/fail")        // "/⟨64 hex digits⟩/validate/fail", for the webhook configuration
//	plain, ok := guard.Prove(r.URL.Path)        // "/validate/fail", true: only readers of the configuration know the path
//
// A webhook server cannot identify the API server by the connection, unless the API server has a client certificate. A path that only the
// API server knows identifies it: it reads the path from the webhook configuration and sends the review there. The segment is an HMAC over
// an epoch and the plain path, so it is valid only for this path and this epoch.
//
// Epochs follow each other, because a path does not stay secret for ever: the API server shows the URL of a failed call to the requester.
// Rotation decides when the next epoch begins, which one the configurations use, and when the last one ends; it reads no clock and writes
// nothing.
//
// A server calls Guard for each request. The check does not allocate, takes constant time in all secrets, and runs before any part of the
// body is read.
//
// The package reads and writes no objects (internal/control/serving does). Floor 4: imports seal.
package secretpath
