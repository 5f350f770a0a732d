// Package remote gives commands access to data outside of their files: the objects of a cluster and image registries.
//
//	c, err := remote.Open(kubeconfig, context, false)                       // finds the cluster as kubectl does
//	kinds, unlisted := c.Kinds.All(programs)
//	c.List(ctx, remote.Query{Kinds: kinds, Unlisted: unlisted}, func(p remote.Page) { … })
//	root := remote.WithObjects(given, c.Root)                               // the World of policies
//
// A Cluster lists objects page by page, reads labels of namespaces and global context entries once, and is a World that reads with the
// rights of the kubeconfig.
//
// The package does not evaluate policies, and does not write to the cluster.
//
// Floor 8: imports the floors below.
package remote
