// Package settings reads the main ConfigMap (`kyverno` by default) into an immutable value.
//
//	s, diags := settings.Parse(configMap.Data)
//	if s.Filtered(gvk, "", "kube-system", "coredns") { … }   // resourceFilters say: leave it alone
//
// A key that cannot be read keeps its default and gives a diagnostic; a key that is not known gives a warning. Store
// holds the current Settings for readers that must not wait.
//
// The package does not watch the ConfigMap and does not act on what it says.
//
// Floor 0 (leaf): imports diag and wildcard.
package settings
