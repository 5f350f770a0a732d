// Package reports tests what the reports controller finds by itself, on a real API server: who is evaluated and when,
// what reports look like in each of their forms, and that replicas share the work.
//
// It holds no code of the product.
package reports
