// Package quickstart executes the commands of the quick start, and the installation of a release: chart and image come from a registry, Helm
// installs them on a real API server, and the image's programs run.
//
//	go test ./e2e/quickstart/
//
// There is no kubelet. Instead, a test pulls the image of a Deployment, starts its program with the Deployment's arguments and rights, and
// sets the Pods ready.
//
// It imports the development control plane.
package quickstart
