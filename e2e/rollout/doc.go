// Package rollout tests the steps of docs/operating/rollout.md, from Audit to Enforce, with their commands on a real API server.
//
// It contains no code of the product.
package rollout
