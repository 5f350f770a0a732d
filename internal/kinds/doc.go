// Package kinds knows the kinds of the Kubernetes API, for use without an API server: which kinds are
// cluster-scoped, and the names of their resources.
//
//	kinds.ClusterScoped("v1", "Node")  // true
//	kinds.Plural("NetworkPolicy")      // networkpolicies
//
// Unknown kinds (custom resources) count as namespaced, and their resources are named by the API's
// convention.
//
// Floor 0 (leaf): imports nothing of ours.
package kinds
