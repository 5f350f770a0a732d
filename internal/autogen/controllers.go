package autogen

import (
	"slices"
	"strings"
)

// ControllersAnnotation restricts the pod controllers for which rules are generated: a comma-separated list of
// kinds, or `none`.
const ControllersAnnotation = "pod-policies.kyverno.io/autogen-controllers"

// cronJobKind is the only kind in its family.
const cronJobKind = "CronJob"

// selectors are the kind selectors of the other controllers, sorted by kind. Rules list them in this order.
var selectors = []struct{ kind, selector string }{
	{"DaemonSet", "apps/v1/DaemonSet"},
	{"Deployment", "apps/v1/Deployment"},
	{"Job", "batch/v1/Job"},
	{"ReplicaSet", "apps/v1/ReplicaSet"},
	{"ReplicationController", "v1/ReplicationController"},
	{"StatefulSet", "apps/v1/StatefulSet"},
}

const cronJobSelector = "batch/v1/CronJob"

// IsController reports whether kind is a pod controller that autogen knows.
func IsController(kind string) bool {
	return kind == cronJobKind || slices.ContainsFunc(selectors, func(s struct{ kind, selector string }) bool { return s.kind == kind })
}

// controllers returns the controllers that the annotation selects: the selectors of the templated ones, and whether
// CronJob is among them. It ignores names that autogen does not know. Blanks are part of a name, as Kyverno
// documents.
func controllers(annotations map[string]string) (templated []string, withCronJob bool) {
	value, set := annotations[ControllersAnnotation]
	if value == "none" {
		return nil, false
	}
	asked := strings.Split(value, ",")
	all := !set || value == ""
	for _, s := range selectors {
		if all || slices.Contains(asked, s.kind) {
			templated = append(templated, s.selector)
		}
	}
	return templated, all || slices.Contains(asked, cronJobKind)
}

// Controllers lists the kinds that rules can be generated for.
func Controllers() []string {
	var out []string
	for _, s := range selectors {
		out = append(out, s.kind)
	}
	return append(out, cronJobKind)
}
