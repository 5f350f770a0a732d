// Package globalctx keeps the data of GlobalContextEntries current, for the policies that refer to them.
//
//	store := globalctx.New(globalctx.Options{API: api, Services: services, Resources: dynamicClient, Now: time.Now})
//	store.Set(entry)                          // a compiled entry, new or changed; its data are fetched at once
//	v, err := store.Global(ctx, "pods.names") // an entry, or one of its projections
//
// Resources are listed and then watched; calls are repeated at their interval. An entry that does not exist, has no data yet or failed at
// its last refresh gives an error, never empty data. All readers share the data and never modify them.
//
// Every process has its own Store. The package neither reads the entries from the cluster nor writes their status; package globalentry
// compiles their content.
//
// Floor 4: imports the leaves and globalentry, and client-go.
package globalctx
