// Package lookups opens the World of a process: what its policies look up in the cluster, at services and in image registries.
//
//	cluster := lookups.NewCluster(manager, discovery)                   // roles, labels of namespaces, kinds
//	root, globals, rows, err := lookups.Options{Calls: &f.calls, …}.Open()
//
// It has the flags that limit lookups. Package world/live and the packages below it do the work.
//
// Floor 8: imports the floors below.
package lookups
