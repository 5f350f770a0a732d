// Package availability tests failures: of a leader, a Lease, certificates, webhook configurations, and all replicas. A real API server calls
// our processes throughout.
//
// It contains no code of the product.
package availability
