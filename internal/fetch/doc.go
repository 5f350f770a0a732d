// Package fetch is the kit for data from elsewhere: registries, keys, certificates, trust roots, services.
//
//	answer, body, err := fetch.Do(fetch.Client(transport), request, 1<<20)   // a request without redirects, with a bounded answer
//	v, err := group.Get(ctx, "key", load)                                      // callers at the same time share one load
//	v, err := answers.Get(ctx, "key", load)                                    // an answer stays in use for a time, and longer during an outage
//	cache := fetch.Cache[string, int]{Entries: 100, Now: time.Now}             // values with an expiry, the least recently used ones dropped first
//
// A Group ends a load when no caller waits for it, which singleflight of golang.org/x/sync cannot. A load that panics, since data from outside
// may be hostile, is an error of its callers.
//
// Floor 4: imports bounded.
package fetch
