package policy

// Names are what outputs call policies of a kind. The descriptor of the family gives them (family.Kind).
type Names struct {
	// Source is what reports name as the source of results.
	Source string
	// LabelPrefix begins the labels with which intermediate reports name the policy; empty for no label.
	LabelPrefix string
	// Metrics begins the names of the metrics that count results; empty for those of most policies (kyverno_policy).
	Metrics string
	// Deletions begins the names of the metrics that count what the policy deletes on its schedule; empty for other policies.
	Deletions string
	// Policy is the name of the policy in reports where it is not Program.Key: a policy of the cluster that a file puts into a namespace is
	// called as if it were of that namespace. An API server accepts no such policy.
	Policy string
}
