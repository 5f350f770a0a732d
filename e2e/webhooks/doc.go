// Package webhooks tests the webhook configurations on a real API server: the effects of the ConfigMap, the policies and the flags, the
// requests that the API server sends, and how configurations are restored and removed.
//
//	go test ./e2e/webhooks -run TestWildcards
//
// It has its own control plane, since its tests stop every replica, and at the end delete the installation. Package e2e tests single
// policies.
package webhooks
