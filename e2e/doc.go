// Package e2e contains the tests of the whole system: a real API server calls our processes about real objects, and the tests check its
// answers and the stored objects.
//
// It contains no code of the product.
package e2e
