// Package flagset holds the common parts of the flags of all controllers: Kyverno flags without an effect here, switches with an
// environment variable, flags with one dash, and the suggestion for a misspelt flag.
//
// The flags themselves stand beside the parts of a controller that they configure.
package flagset
