// Package app starts the long-running processes. flags.go has their settings, controllers.go the tables of their controllers.
//
//	root.AddCommand(app.NewControllerCommand(version))   // ephor controller admission
//
// A process has one small cache of the cluster: policies, our own Secrets and ConfigMap, the labels of namespaces, our webhook
// configurations, and role bindings only if a policy uses roles. Rows of the leader require the lease. Everything else, in particular
// answering reviews, does not.
//
// The package contains no policy logic and no loop: it connects the packages below control/, and stops them in order.
//
// Floor 8: imports the floors below.
package app
