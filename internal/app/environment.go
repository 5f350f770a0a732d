package app

import (
	"os"
)

// env is what a process learns from its environment (control plane reference §1.6).
type env struct {
	namespace, service, configMap, metricsConfig, podName string
	// version is the program's.
	version string
}

// version is the program's; NewControllerCommand sets it before anything runs.
var version = "(devel)"

// environment reads the variables; one that is not set, or empty, has Kyverno's default.
func environment(lookup func(string) (string, bool)) env {
	get := func(name, otherwise string) string {
		if v, ok := lookup(name); ok && v != "" {
			return v
		}
		return otherwise
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "kyverno"
	}
	return env{
		version:   version,
		namespace: get("KYVERNO_NAMESPACE", "kyverno"),
		service:   get("KYVERNO_SVC", "kyverno-svc"),
		configMap: get("INIT_CONFIG", "kyverno"), metricsConfig: get("METRICS_CONFIG", "kyverno-metrics"),
		podName: get("KYVERNO_POD_NAME", host),
	}
}
