// Package clients tests an API server that authenticates to webhooks with a client certificate (docs/security/hardening.md). It needs a
// control plane with its own flags.
//
// It contains no code of the product.
package clients
