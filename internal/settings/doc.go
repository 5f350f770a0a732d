// Package settings parses the main ConfigMap (`kyverno` by default) into an immutable value.
//
//	s, diags := settings.Parse(configMap.Data)
//	if s.Filtered(gvk, "", "kube-system", "coredns") { … }   // excluded by resourceFilters
//
// An invalid value keeps its default and causes an error diagnostic; an unknown key causes a warning. Store holds the current Settings for
// readers that must not wait.
//
// The package does not watch the ConfigMap and does not apply the settings.
//
// Floor 0 (leaf): imports diag and wildcard.
package settings
