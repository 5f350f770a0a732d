// Package app assembles the long-running processes: it has one function per process, each with a flat list of tasks.
//
//	root.AddCommand(app.NewControllerCommand(version))   // ephor controller admission
//
// A process has one small cache of the cluster: policies, our own Secrets and ConfigMap, the labels of namespaces, our webhook
// configurations, and role bindings only if a policy uses roles. Tasks that only one replica may run require the lease.
// Everything else, in particular answering reviews, does not.
//
// The package contains no policy logic: it reads flags and environment variables, connects the packages below, and stops them in
// order.
//
// Floor 8: imports the floors below.
package app
