// Package offline evaluates policies on given objects, without a controller. The commands apply, test and explain share
// it.
//
//	e := offline.New(programs, root, values)
//	answers, err := e.All(ctx, object)              // one for each group of stages
//	answers, err := e.Each(ctx, object, operation)  // one for each policy and group of stages
//
// It builds the request for an object: a request that creates it, or the request that the values describe. The caller
// provides the World.
//
// The package does not read files and does not print.
//
// Floor 8: imports cli/remote and the floors below.
package offline
