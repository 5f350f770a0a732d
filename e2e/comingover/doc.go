// Package comingover tests the switch from Kyverno to Ephor and back on a real API server, while requests come: no object that a policy
// refuses is admitted, clean ones are refused for no longer than the swap itself, and work is done once.
//
// The orders of steps of the guide are run for Helm, Argo CD, Flux and plain manifests, each on a control plane of its own, and the guide has to
// have the commands that a test runs. Helm and kubectl are the real ones. A sync of Argo CD is what it does at the API server: the rendered chart with
// an annotation on each object is applied as its field manager, and what has the annotation and is not in the chart is deleted. Flux
// is Helm with server-side apply. Kyverno's chart is represented by one made of ours, with its init container, its roles, and definitions
// of which only some are kept.
//
// Kyverno's processes are represented by a stand-in of our own (standin_test.go): it holds their Leases, writes webhook configurations in
// their form and answers them. What Kyverno leaves in a cluster is read from the recordings of the reference data (recorded_test.go); UpdateRequests, and
// a policy in CEL with its webhook, were not recorded and are made here.
package comingover
