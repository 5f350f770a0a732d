// Package v1alpha1 holds the Go form of the files that the command line reads beside policies and resources
// (cli.kyverno.io/v1alpha1): Test, Values, UserInfo, Context and ClusterResource.
//
//	var test v1alpha1.Test
//	diags := strict.Decode(object, &test)
//
// The kinds exist in files only; no cluster stores them. The package neither reads files nor gives the fields meaning:
// internal/cli does.
//
// It imports nothing of Ephor.
//
// +kubebuilder:skip
package v1alpha1
