// Package discovery says which resources a kind has, and which kinds a resource has: what policy.Target means on an API server.
//
//	d := discovery.New(client, time.Now)          // the list of the API server, fetched on demand
//	found, err := d.Find(target)                  // by kind or by resource, with wildcards
//	one := discovery.OneVersion(found)            // each resource once, in the version that its group prefers
//	gvr := discovery.ResourceOf(gvk)              // without an API server
//
// List is such a list that does not change. Kinds answers the questions of package world. Without an API server the built-in
// kinds are known, and the resource of another kind is named by the convention of the API (offline.go).
//
// Floor 4: imports kinds, policy, wildcard and world.
package discovery
