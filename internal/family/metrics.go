package family

// Metrics describes the two metrics for results of policies of a kind: Name_results and Name_execution_duration_seconds.
type Metrics struct {
	// Name begins their names: kyverno_validating_policy.
	Name string
	// Kind is the kind in the help of the metrics. Kinds that differ only in their scope share the metrics.
	Kind string
	// Per is what a policy is evaluated for once: "request or scanned object".
	Per string
	// Mode and Background say which labels there are: policy_validation_mode and policy_background_mode.
	Mode, Background bool
	// Cause is the value of the label execution_cause; empty for where the request comes from.
	Cause string
}
