package family

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Run describes how the controllers report on policies that delete on a schedule.
type Run struct {
	// Controller is the name under which metrics count the runs.
	Controller string
	// Metrics begins the names of the metrics that count deletions and errors.
	Metrics string
	// CountsResources reports that these metrics name what is deleted by its resource, and not by its kind.
	CountsResources bool
	// Delete and Deleted are the words of events: "clean up" and "cleaned up".
	Delete, Deleted string
	// Conditions is the path of the list of conditions below the status.
	Conditions []string
	// Ready is the path below the status of a boolean that says whether all conditions are true; nil for none.
	Ready []string
	// Rights makes the condition that says which rights the runs lack; nil for a family whose status does not say so.
	Rights func([]MissingRight) metav1.Condition
}
