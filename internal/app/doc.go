// Package app assembles the long-running processes: one function per process, each with one flat list of its tasks.
//
//	root.AddCommand(app.NewControllerCommand(version))   // ephor controller admission
//
// A process has one small cache of the cluster: policies, our own Secrets and ConfigMap, the labels of namespaces, our webhook
// configurations, and role bindings only if a policy uses roles. Tasks of a single replica run while the process holds the lease;
// everything else, above all answering reviews, does not depend on it.
//
// The package holds no logic of policies: it reads flags and environment, connects the packages below, and stops them
// in order.
//
// Floor 8: imports the floors below.
package app
