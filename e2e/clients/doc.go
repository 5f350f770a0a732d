// Package clients holds the test of an API server that shows a client certificate to its webhooks (docs/security/hardening.md): it
// needs a control plane with flags of its own.
//
// It holds no code of the product.
package clients
