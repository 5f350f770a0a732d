// Package quickstart executes the quick start of the guide, word for word, and the installation of a release: chart and image come from a
// registry, Helm installs them on a real API server, and the programs that run are those of the image.
//
//	go test ./e2e/quickstart/
//
// There is no kubelet. In its place a test pulls the image that a Deployment names, starts the program in it with the Deployment's
// arguments and rights, and sets the Pods ready.
//
// Beside the program; it imports the development control plane.
package quickstart
