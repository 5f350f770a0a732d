// Package chart holds the chart against a real API server with Helm itself: what charts/ephor makes is accepted, changed
// and taken away again. No controller runs: what they do is the matter of the other packages.
//
//	go test ./e2e/chart/
//
// Beside the program; it imports the development control plane and the runner of Helm (hack/chart/helm).
package chart
