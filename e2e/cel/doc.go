// Package cel holds the policies of policies.kyverno.io against a real API server: their webhooks, and what these answer.
//
//	go test ./e2e/cel -run TestValidating
//
// What their expressions mean is tested beside the families, without a cluster.
package cel
