package policy

// Names are the names of policies of a kind in outputs. The descriptor of the family defines them (family.Kind).
type Names struct {
	// Source is the source of results in reports.
	Source string
	// LabelPrefix is the prefix of the labels with which intermediate reports name the policy; empty for no label.
	LabelPrefix string
	// Metrics is the prefix of the metrics that count results; empty for the common one (kyverno_policy).
	Metrics string
	// Deletions is the prefix of the metrics that count scheduled deletions of the policy; empty for other policies.
	Deletions string
	// Policy is the name of the policy in reports where it is not Program.Key: a policy of the cluster that a file puts into a namespace is
	// called as if it were of that namespace. An API server accepts no such policy.
	Policy string
}
