// Package discovery maps kinds to resources and back: it resolves a policy.Target on an API server.
//
//	d := discovery.New(client, time.Now)          // the list of the API server, fetched on demand
//	found, err := d.Find(target)                  // by kind or by resource, with wildcards
//	one := discovery.OneVersion(found)            // each resource once, in the version that its group prefers
//	gvr := discovery.ResourceOf(gvk)              // without an API server
//	c, err := discovery.NewClient(config, client.Options{Mapper: mapper}) // reads and writes objects
//
// List is a fixed list of resources. Kinds implements the lookups of package world. Without an API server, the package knows the
// built-in kinds and names the resources of other kinds by the convention of the API (offline.go).
// Every client that asks for served kinds, and every mapper of a client, is made here, so that each of its requests for kinds ends (client.go).
//
// Floor 4: imports kinds, policy, wildcard and world.
package discovery
