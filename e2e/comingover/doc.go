// Package comingover tests the switch from Kyverno to Ephor and back on a real API server, while requests come: no object that a policy
// refuses is admitted, clean ones are refused for no longer than the swap itself, and work is done once.
//
// Kyverno's processes are represented by a stand-in of our own (standin_test.go): it holds their Leases, writes webhook configurations in
// their form and answers them.
package comingover
