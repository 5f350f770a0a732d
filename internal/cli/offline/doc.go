// Package offline evaluates policies on given objects, without a controller: the part that apply, test and explain share.
//
//	e := offline.New(programs, root, values)
//	answers, err := e.All(ctx, object)              // one for each group of stages
//	answers, err := e.Each(ctx, object, operation)  // one for each policy and group of stages
//
// It makes the request that an object stands for: its creation, or what the values say. The World is the caller's.
//
// The package reads no files and prints nothing.
//
// Floor 8: imports cli/remote and the floors below.
package offline
