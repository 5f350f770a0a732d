package updaterequest

import (
	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
)

// Reference returns the reference to an object of an UpdateRequest for an event.
func Reference(r kyvernov2.ResourceSpec) event.Reference {
	return event.Reference{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: string(r.UID)}
}

// Controller returns the name of the controller that reports events about a rule's work.
func Controller(r *policy.Rule) string {
	if r.Generation == nil {
		return event.MutateController
	}
	return event.GenerateController
}
