// Package cleanup looks up which rights the cleanup controller has: for the policies that it executes, and for TTL labels.
//
//	rights := cleanup.Rights{Client: client, Discovery: discovery}
//	missing, err := rights.Missing(ctx, program)
//
// Packages cleanup and ttl of the floor below delete objects.
//
// Floor 8: imports the floors below.
package cleanup
