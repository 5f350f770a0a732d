// Package config follows the main ConfigMap: the settings of a process, and what depends on them.
//
//	conf := &config.Config{Name: "kyverno", Settings: store, Policies: policies, …}
//	watches := []intake.Watch{conf.Watch()}
//
// Package settings parses it.
//
// Floor 8: imports the floors below.
package config
