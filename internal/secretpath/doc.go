// Package secretpath makes and checks the secret segments in the paths of webhooks.
//
//	epoch := secretpath.NewEpoch(key, "5d3f…")
//	path := epoch.Path("/validate/fail")        // "/⟨64 hex digits⟩/validate/fail", for the webhook configuration
//	plain, ok := guard.Prove(r.URL.Path)        // "/validate/fail", true: only readers of the configuration know the path
//
// A webhook server cannot recognize the API server by the connection, unless the API server shows a certificate. A
// path that only the API server knows does: it reads the path from the webhook configuration and sends the review there.
// The segment is an HMAC over an epoch and the plain path, so it opens this path only. It ends with its epoch.
//
// Epochs follow each other, because a path does not stay secret for ever: the API server shows the URL of a failed call
// to the requester. Rotation decides when the next epoch begins, which one the configurations carry,
// and when the last one ends; it reads no clock and writes nothing.
//
// Guard is what a server asks for each request. Its check allocates nothing, takes constant time in what is secret, and
// happens before anything of the body is read.
//
// The package reads and writes no objects (internal/app does). Floor 4: imports seal.
package secretpath
