// Package webhooks holds the webhook configurations against a real API server: what the ConfigMap, the policies and the
// flags make of them, what the API server then asks about, and how they come back and go away.
//
//	go test ./e2e/webhooks -run TestWildcards
//
// It has a control plane of its own, since tests here stop every replica, and in the end delete the
// installation. What single policies do is tested in the package above.
package webhooks
