package app

// Variable is an environment variable that a process reads.
type Variable struct{ Name, Default, Doc string }

// Variables returns all environment variables that processes read, with their documentation.
func Variables() []Variable {
	return []Variable{
		{"KYVERNO_NAMESPACE", "`kyverno`", "The namespace that the process runs in."},
		{"KYVERNO_SVC", "`kyverno-svc`", "The Service of the process, for webhook configurations and certificates; with `-metrics` that of its metrics."},
		{"KYVERNO_DEPLOYMENT", "–", "The Deployment of the process: while it has no replicas there is no answer, and the webhook configurations are removed. Where there is no other Service, that of the metrics is called after it."},
		{"INIT_CONFIG", "`kyverno`", "The name of the main ConfigMap."},
		{"METRICS_CONFIG", "`kyverno-metrics`", "The name of the ConfigMap for metrics."},
		{"KYVERNO_ROLE_NAME", "–", "The ClusterRole of the process, which owns the webhook configurations."},
		{"KYVERNO_POD_NAME", "the host name", "The identity with which leases are held."},
		{envScanInterval, "`1h`", "How often the background controller looks at rules for what exists already without news."},
		{"GOGC, GOMEMLIMIT", "–", "Go's own settings of the collector; they win over ours, and it is then left to Go when memory is returned."},
		{envForceIgnore, "–", "As --forceFailurePolicyIgnore, which wins."},
		{envGenerateNative, "–", "As --generateValidatingAdmissionPolicy, which wins."},
		{envRequireMutating, "–", "As --generateMutatingAdmissionPolicy, which wins."},
		{envProtect, "–", "As --protectManagedResources, which wins."},
		{envBlocklist, "–", "As --httpBlocklist, which wins."},
		{envAllowlist, "–", "As --httpAllowlist, which wins."},
		{envNamespacedHTTP, "–", "As --allowHTTPInNamespacedPolicies, which wins."},
		{"OTEL_…", "–", "The settings of OpenTelemetry for traces."},
	}
}
