package policy

// Names are the names of policies of a kind in outputs. The descriptor of the family defines them (family.Kind).
type Names struct {
	// Source is the source of results in reports.
	Source string
	// LabelPrefix is the prefix of the labels that name the policy in intermediate reports; empty for no label.
	LabelPrefix string
	// Metrics is the prefix of the metrics that count results; empty for the common one (kyverno_policy).
	Metrics string
	// Deletions is the prefix of the metrics that count scheduled deletions of the policy; empty for other policies.
	Deletions string
	// Policy is the name of the policy in reports, if it differs from Program.Key: a cluster-wide policy that a file places in a namespace
	// is named as if it belonged to that namespace. An API server does not accept such a policy.
	Policy string
}
