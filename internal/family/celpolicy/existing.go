package celpolicy

import "ephor.invalid/ephor/internal/names"

// AllowExistingAnnotation on a ValidatingPolicy, with the value true, admits updates of objects that violated the policy before, as
// allowExistingViolations of classic rules does.
const AllowExistingAnnotation = names.Domain + "allow-existing-violations"

// AllowsExisting reports whether a policy with these annotations admits updates of objects that violated it before.
func AllowsExisting(annotations map[string]string) bool {
	return annotations[AllowExistingAnnotation] == "true"
}

// ReplaceExistingAnnotation on a GeneratingPolicy, with the value true, lets it replace objects with the names of its own that it did not create, as
// classic rules with synchronize do.
const ReplaceExistingAnnotation = names.Domain + "replace-existing"

// OnPolicyUpdateAnnotation on a MutatingPolicy for existing resources, with the value false, limits it to requests: it is not executed for all existing
// triggers when it is created or changed, as classic rules without mutateExistingOnPolicyUpdate.
const OnPolicyUpdateAnnotation = names.Domain + "on-policy-update"
