package family

// Metrics describes the two metrics for results of policies of a kind: Name_results and Name_execution_duration_seconds.
type Metrics struct {
	// Name is the prefix of both names, such as kyverno_validating_policy.
	Name string
	// Kind is the kind in the help text of the metrics. Kinds that differ only in their scope share the metrics.
	Kind string
	// Per is the unit of one evaluation, such as "request or scanned object".
	Per string
	// Mode and Background enable the labels policy_validation_mode and policy_background_mode.
	Mode, Background bool
	// Cause is the value of the label execution_cause; empty to derive it from the origin of the request.
	Cause string
}
