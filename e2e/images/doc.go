// Package images tests the verification of images on a real API server, with a registry whose images cosign signed.
package images
