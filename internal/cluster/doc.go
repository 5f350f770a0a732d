// Package cluster reads a cluster with the rights of one user, who may not be allowed to read everything.
//
//	client, err := cluster.As(config, token)           // rest.Interface: the rights of the owner of the token
//	c := cluster.New(client, cluster.Options{Kinds: discovery})
//	for r := range c.Objects(ctx, kinds, cluster.Where{}) { … }   // existing objects, as requests that create them
//
// A Reader reads objects page by page, policies, exceptions, the labels of namespaces and the metadata of owners. Each answer of the API server is
// bounded in bytes. The command line reads with the rights of a kubeconfig, the dashboard with those of its users.
//
// The package evaluates nothing, and does not write.
//
// Floor 7: imports impact and the floors below.
package cluster
