package family

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Run describes how the controllers report on policies that delete on a schedule.
type Run struct {
	// Controller is the name under which metrics count the runs.
	Controller string
	// Metrics is the prefix of the metrics that count deletions and errors.
	Metrics string
	// CountsResources: these metrics identify a deleted object by its resource instead of its kind.
	CountsResources bool
	// Delete and Deleted are the verbs in events, such as "clean up" and "cleaned up".
	Delete, Deleted string
	// Conditions is the path of the list of conditions below the status.
	Conditions []string
	// Ready is the path below the status of a boolean that reports whether all conditions are true; nil for none.
	Ready []string
	// Rights returns the condition that reports the missing rights of the runs; nil if the family's status has none.
	Rights func([]MissingRight) metav1.Condition
}
