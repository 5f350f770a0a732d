// Package comingover tests the switch from Kyverno to Ephor and back on a real API server under requests: violating objects are never
// admitted, valid ones are denied during the swap at most, and work is executed once.
//
// The tests follow the steps of the guide for Helm, Argo CD, Flux and plain manifests, each on its own control plane, and check that the
// guide contains their commands. Helm and kubectl are the real tools. A sync of Argo CD is reproduced at the API server: the test applies
// the rendered chart, with an annotation on each object, under Argo CD's field manager, and deletes objects that have the annotation but are
// not in the chart. Flux is Helm with server-side apply. A modified copy of Ephor's chart represents Kyverno's, with an init container,
// other roles, and definitions of which only some are kept.
//
// A stand-in (standin_test.go) represents Kyverno's processes: it holds their Leases, writes webhook configurations in their format and
// answers them. The objects that Kyverno leaves in a cluster come from the recordings of the reference data (recorded_test.go), except
// UpdateRequests and a CEL policy with its webhook, which were not recorded.
package comingover
