// Package kubeversion names the minor versions of Kubernetes whose rules Ephor knows.
//
//	server, err := kubeversion.Parse("v1.36.3")   // 1.36
//	server.Known() >= 37                           // false
//
// The zero Minor stands for the newest known version. What each version changes is known to the packages that follow it: cel/env (functions),
// pss (standards) and schema (fields).
//
// Floor 0 (leaf): imports nothing of ours.
package kubeversion
