// Package app wires the long-running processes: one function per process, each with one flat list of what runs in it.
//
//	root.AddCommand(app.NewControllerCommand(version))   // ephor controller admission
//
// A process has one cache of the cluster, kept small: policies, our own Secrets and ConfigMap, the labels of
// namespaces, our webhook configurations, and role bindings only once a policy asks for roles. What only one replica
// may do runs while the process holds the lease; everything else, above all answering reviews, does not depend on it.
//
// The package holds no logic of policies: it reads flags and environment, connects the packages below, and stops them
// in order.
//
// Floor 8: imports the floors below.
package app
