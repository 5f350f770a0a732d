// Package chart installs, upgrades and uninstalls charts/ephor on a real API server with Helm. No controller runs.
//
//	go test ./e2e/chart/
//
// It imports the development control plane and the runner of Helm (hack/chart/helm).
package chart
