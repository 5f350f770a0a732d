// Package decisions tests the store of decisions on a real API server: what the admission controller sends over the channel, and what the
// dashboard and the command line show of it.
package decisions
