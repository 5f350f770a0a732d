// Package reports tests the scans of the reports controller on a real API server: which resources are evaluated and when, the formats of
// reports, and the sharing of work between replicas.
//
// It contains no code of the product.
package reports
