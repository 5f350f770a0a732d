// Package devcluster builds, starts and stops real Kubernetes control planes on loopback, for tests and for the demo.
//
//	c := devcluster.StartT(t)            // etcd, kube-apiserver, kube-controller-manager
//	out, err := c.Kubectl(ctx, nil, "get", "namespaces")
//
// The programs come from the nested module devcluster/ of this repository, compiled once into bin/devcluster. There is no kubelet, no
// scheduler and no kube-proxy: Pods are admitted and stored but never run, and Forward serves Services by listening on their ClusterIP (a
// loopback address). It is not production code: only tests, the benchmarks and the demo import it.
//
// Beside the floors: of ours it imports only the manifests in config/.
package devcluster
