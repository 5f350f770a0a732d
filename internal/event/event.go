package event

import "ephor.invalid/ephor/internal/policy"

// Reference identifies the object that an event is about.
type Reference struct{ APIVersion, Kind, Namespace, Name, UID string }

// The types of events.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// The reasons of events. PolicyApplied is a success, which is written only if the settings enable it.
const (
	PolicyViolation = "PolicyViolation"
	PolicyApplied   = "PolicyApplied"
	PolicyError     = "PolicyError"
	PolicySkipped   = "PolicySkipped"
	// DeletionPreview reports the objects that a cleanup policy in preview mode would delete. DeletionLimit reports that the limit
	// prevented all deletions.
	DeletionPreview = "DeletionPreview"
	DeletionLimit   = "DeletionLimitExceeded"
	// MeaningChanged reports that another version of Kubernetes changed what a policy means.
	MeaningChanged = "MeaningChanged"
)

// The actions of events.
const (
	ResourcePassed    = "Resource Passed"
	ResourceBlocked   = "Resource Blocked"
	ResourceMutated   = "Resource Mutated"
	ResourceGenerated = "Resource Generated"
	ResourceCleanedUp = "Resource Cleaned Up"
	Retrying          = "Retrying"
	None              = "None"
)

// The controllers that report events, with the names that users filter on.
const (
	AdmissionController     = "kyverno-admission"
	ScanController          = "kyverno-scan"
	GenerateController      = "kyverno-generate"
	MutateController        = "kyverno-mutate"
	CleanupController       = "kyverno-cleanup"
	GlobalContextController = "globalcontext-controller"
)

// Event is one event about an object.
type Event struct {
	Regarding Reference
	// Related is a second object; the zero Reference for none.
	Related Reference
	// Type is Normal or Warning; by default it follows from the reason: Normal for successes, Warning for all others.
	Type   string
	Reason string
	Action string
	Note   string
	// Controller is the name of the controller that reports the event.
	Controller string
}

// Recorder records events. Record never waits and is safe for concurrent use.
type Recorder interface{ Record(Event) }

// Discard is a Recorder that drops everything.
var Discard Recorder = discard{}

type discard struct{}

func (discard) Record(Event) {}

// PolicyReference returns the reference to a policy.
func PolicyReference(p *policy.Program) Reference {
	return Reference{APIVersion: p.APIVersion, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// ExceptionReference returns the reference to an exception.
func ExceptionReference(e *policy.Exception) Reference {
	return Reference{APIVersion: e.APIVersion, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name, UID: e.UID}
}

// typeOf returns the default type of a reason.
func typeOf(reason string) string {
	if reason == PolicyApplied || reason == PolicySkipped {
		return Normal
	}
	return Warning
}
