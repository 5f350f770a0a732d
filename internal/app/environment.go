package app

import (
	"os"
)

// env holds the variables of the environment that describe the process.
type env struct {
	namespace, service, configMap, metricsConfig, podName string
	// deployment is the Deployment of the process; empty without one.
	deployment string
	// metricsService is the chart's name for the Service of the metrics.
	metricsService string
	// role is the ClusterRole of the process; empty without one.
	role string
	// version is the program's.
	version string
}

// version is the program's; NewControllerCommand sets it before anything runs.
var version = "(devel)"

// environment reads the variables; an unset or empty one has Kyverno's default.
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
	service := get("KYVERNO_SVC", "kyverno-svc")
	return env{
		version:    version,
		namespace:  get("KYVERNO_NAMESPACE", "kyverno"),
		service:    service,
		deployment: get("KYVERNO_DEPLOYMENT", ""),
		// The only Service of a controller without webhooks is that of its metrics, which is named after its Deployment.
		metricsService: get("KYVERNO_SVC", get("KYVERNO_DEPLOYMENT", service)) + "-metrics",
		configMap:      get("INIT_CONFIG", "kyverno"), metricsConfig: get("METRICS_CONFIG", "kyverno-metrics"),
		role:    get("KYVERNO_ROLE_NAME", ""),
		podName: get("KYVERNO_POD_NAME", host),
	}
}
