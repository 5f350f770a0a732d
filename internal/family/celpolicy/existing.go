package celpolicy

import "ephor.invalid/ephor/internal/names"

// AllowExistingAnnotation on a ValidatingPolicy, with the value true, admits updates of objects that violated the policy before, as
// allowExistingViolations of classic rules does.
const AllowExistingAnnotation = names.Domain + "allow-existing-violations"

// AllowsExisting reports whether a policy with these annotations admits updates of objects that violated it before.
func AllowsExisting(annotations map[string]string) bool {
	return annotations[AllowExistingAnnotation] == "true"
}
