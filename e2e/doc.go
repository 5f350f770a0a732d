// Package e2e holds the tests that need the whole system: a real API server asks our processes about real objects, and
// the tests assert what the API server then says and stores.
//
// It holds no code of the product.
package e2e
