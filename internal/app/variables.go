package app

import "ephor.invalid/ephor/internal/lookups"

// Variable is an environment variable that a process reads.
type Variable struct{ Name, Default, Doc string }

// Variables returns all environment variables that processes read, with their documentation.
func Variables() []Variable {
	return []Variable{
		{"KYVERNO_NAMESPACE", "`kyverno`", "The namespace that the process runs in."},
		{"KYVERNO_SVC", "`kyverno-svc`", "The Service of the process, used in webhook configurations and certificates. The name with the suffix `-metrics` is that of the Service for metrics."},
		{"KYVERNO_DEPLOYMENT", "–", "The Deployment of the process. When it is scaled to zero, the webhook configurations are removed, since no replica can answer. Processes without another Service name their metrics Service after it."},
		{"INIT_CONFIG", "`kyverno`", "The name of the main ConfigMap."},
		{"METRICS_CONFIG", "`kyverno-metrics`", "The name of the ConfigMap for metrics."},
		{"KYVERNO_ROLE_NAME", "–", "The ClusterRole of the process, which owns the webhook configurations."},
		{"KYVERNO_POD_NAME", "the host name", "The identity of the process in leases."},
		{envScanInterval, "`1h`", "The interval at which the background controller applies rules to existing objects again even if nothing changed."},
		{"GOGC, GOMEMLIMIT", "–", "Go's own settings of the garbage collector. They take precedence over those of the process, and Go then decides when to return memory to the system."},
		{envForceIgnore, "–", "Same as --forceFailurePolicyIgnore; the flag takes precedence."},
		{envGenerateNative, "–", "Same as --generateValidatingAdmissionPolicy; the flag takes precedence."},
		{envRequireMutating, "–", "Same as --generateMutatingAdmissionPolicy; the flag takes precedence."},
		{envProtect, "–", "Same as --protectManagedResources; the flag takes precedence."},
		{lookups.EnvBlocklist, "–", "Same as --httpBlocklist; the flag takes precedence."},
		{lookups.EnvAllowlist, "–", "Same as --httpAllowlist; the flag takes precedence."},
		{lookups.EnvNamespacedHTTP, "–", "Same as --allowHTTPInNamespacedPolicies; the flag takes precedence."},
		{"OTEL_…", "–", "The OpenTelemetry settings for traces."},
	}
}
