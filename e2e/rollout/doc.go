// Package rollout holds the way of docs/operating/rollout.md, from Audit to Enforce, with its own commands on a real API server.
//
// It holds no code of the product.
package rollout
