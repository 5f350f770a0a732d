// Package kinds knows the kinds of the Kubernetes API where no API server can be asked: which live outside of
// namespaces, and what their resources are called.
//
//	kinds.ClusterScoped("v1", "Node")  // true
//	kinds.Plural("NetworkPolicy")      // networkpolicies
//
// What it does not know (custom resources) counts as namespaced and is named by the API's convention.
//
// Floor 0 (leaf): imports nothing of ours.
package kinds
