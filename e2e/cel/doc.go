// Package cel tests the policies of policies.kyverno.io on a real API server: their webhooks, and the answers of these.
//
//	go test ./e2e/cel -run TestValidating
//
// The tests of the families cover the meaning of expressions, without a cluster.
package cel
