// Package decisions tests the store of decisions on a real API server: the channel from the admission controller, and the output of the
// dashboard and the command line.
package decisions
