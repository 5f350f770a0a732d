package app

import (
	"os"
)

// env holds the environment variables that describe the process.
type env struct {
	namespace, service, configMap, metricsConfig, podName string
	// deployment is the Deployment of the process; empty without one.
	deployment string
	// metricsService is the name that the chart gives to the Service of the metrics.
	metricsService string
	// role is the ClusterRole of the process; empty without one.
	role string
	// version is the version of the program.
	version string
}

// version is the version of the program. NewControllerCommand sets it before anything runs.
var version = "(devel)"

// environment reads the variables. For an unset or empty variable it uses Kyverno's default.
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
		// A controller without webhooks has only a Service for its metrics, which is named after its Deployment.
		metricsService: get("KYVERNO_SVC", get("KYVERNO_DEPLOYMENT", service)) + "-metrics",
		configMap:      get("INIT_CONFIG", "kyverno"), metricsConfig: get("METRICS_CONFIG", "kyverno-metrics"),
		role:    get("KYVERNO_ROLE_NAME", ""),
		podName: get("KYVERNO_POD_NAME", host),
	}
}
