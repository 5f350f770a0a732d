// Package globalctx keeps the data of GlobalContextEntries up to date, for the policies that refer to them.
//
//	store := globalctx.New(ctx, globalctx.Options{API: api, Services: services, Resources: dynamicClient, Now: time.Now})
//	store.Set(entry)                          // a compiled entry, new or changed; its data are fetched at once
//	v, err := store.Global(ctx, "pods.names") // an entry, or one of its projections
//
// Resources are listed and then watched; calls are repeated at their interval. An entry that is missing, that has no
// data yet or whose last refresh failed is an error, never empty data. Data are shared by all who read them and are
// never modified.
//
// Every process keeps its own Store. The package neither reads the entries from the cluster nor writes their status;
// what an entry says was compiled by package globalentry.
//
// Floor 4: imports the leaves and globalentry, and client-go.
package globalctx
