// Package flagset contains helpers for the flags of all controllers: Kyverno flags that have no effect in Ephor, switches with
// an environment variable, flags with one dash, and the suggestion for a misspelt flag.
//
// The flags themselves are defined beside the parts of a controller that they configure.
package flagset
