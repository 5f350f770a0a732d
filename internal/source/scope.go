package source

import "ephor.invalid/ephor/internal/kinds"

// ClusterScoped reports whether the kind is a known cluster-scoped kind.
func ClusterScoped(apiVersion, kind string) bool { return kinds.ClusterScoped(apiVersion, kind) }

// KubernetesGroup reports whether the API group is one of Kubernetes itself; "" is the core group.
func KubernetesGroup(group string) bool { return kinds.KubernetesGroup(group) }
