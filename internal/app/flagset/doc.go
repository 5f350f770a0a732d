// Package flagset holds what the flags of all controllers have in common: flags of Kyverno that have no effect here, switches with an
// environment variable, flags with one dash, and the suggestion for a misspelt flag.
//
// The flags themselves stand beside the parts of a controller that they configure.
package flagset
