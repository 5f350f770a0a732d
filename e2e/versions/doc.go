// Package versions compares Ephor with API servers of several versions of Kubernetes: Pod Security, CEL expressions, policies in files, and
// upgrades. EPHOR_KUBERNETES selects the version of the control plane; `make matrix` runs the tests for several versions, with all their cases.
//
// Beside the floors.
package versions
