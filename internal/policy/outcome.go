package policy

import (
	"time"

	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

// Status of a Result.
type Status uint8

// The statuses of results. The zero Status is "no result".
const (
	StatusNone Status = iota
	StatusPass
	StatusFail
	StatusWarn
	StatusError
	StatusSkip
)

var statusNames = [...]string{"", "pass", "fail", "warn", "error", "skip"}

func (s Status) String() string { return statusNames[s] }

// Yield is the result of one evaluation of a rule. The zero Yield is "no result".
type Yield struct {
	Status Status
	// Warn: the result becomes a warning of an allowed request, independent of the policy's settings.
	Warn bool
	// Unknown: a lookup had no answer; neither the policy nor the object is wrong. Such an error does not deny a request if failurePolicy
	// is Ignore.
	Unknown    bool
	Message    string
	Path       string // the place in the object where a pattern failed, such as /spec/containers/0/image/
	Properties map[string]string
	// Annotations are for the audit event of the request, by their keys: qualified names without a prefix.
	Annotations map[string]string
	// Exceptions exempt the request: the status is skip, or pass if they request it.
	Exceptions []*Exception
	// Object is the object after a mutate rule; nil when it changed nothing. With status error it is an empty object when the patch itself
	// failed, and nil when the rule failed before the patch. A change without a result is not reported.
	Object *value.Doc
	// Work is the deferred change that a generate or mutate-existing rule asks for.
	Work []Work
	// Part is the part of the policy that gave the result, for reports that name it instead of the rule; empty for the rule.
	Part string
	// Signatures is what a rule that verifies images adds; nil for all other rules.
	Signatures *Signatures
	// Also are further results of the same evaluation, in order: a verifyImages rule gives one for each image. Object and
	// Work belong to the first.
	Also []Yield
}

// Signatures is what the verification of images adds to a Yield. It is apart because most rules have none, and a Yield is copied often.
type Signatures struct {
	// Images are those whose signatures the evaluation verified; the value is true if a signature was accepted.
	Images map[string]bool
	// Attested are the answers of attestors that led to the result.
	Attested []Attested
	// Settle returns the result that replaces this one after the evaluation of all rules, from all results; nil to keep this one.
	Settle func(all []Result) Yield
}

// Attested returns the answers of attestors that led to the result.
func (y *Yield) Attested() []Attested {
	if y.Signatures == nil {
		return nil
	}
	return y.Signatures.Attested
}

// Attested is what an attestor says of an image: pass when it signed it, fail when it did not, error when that could not be found out.
type Attested struct {
	Image    string // by its digest, where that is known
	Path     string // of the attestor in the rule, or its name
	Type     string // of the statement; empty for a signature of the image
	Attestor *world.Attestor
	Status   Status
}

// Result is the result of one rule for one request.
type Result struct {
	Program *Program
	Rule    *Rule
	Yield
	Action Action // effective action of the rule for the request's namespace
	// OfTarget: the object is a target of the rule's work, not its trigger.
	OfTarget bool
	// Elapsed is the time that the rule took, with matching and lookups; 0 if times are not measured, and for the second and
	// later results of one evaluation.
	Elapsed time.Duration
}

// WorkKind is the type of a Work.
type WorkKind string

// The kinds of work.
const (
	// WorkGenerate creates or updates the objects of a generate rule.
	WorkGenerate WorkKind = "generate"
	// WorkDeleteDownstream deletes the objects that a generate rule created for the request's object.
	WorkDeleteDownstream WorkKind = "delete-downstream"
	// WorkDelete deletes the request's object, on behalf of a cleanup policy.
	WorkDelete WorkKind = "delete"
	// WorkMutateExisting changes the targets of a mutate rule.
	WorkMutateExisting WorkKind = "mutate-existing"
)

// MaxHops is how many times in a row the background controller's own writes may cause work.
const MaxHops = 10

// Work is a deferred change that a rule requests. The background controller executes it; the command line prints it.
type Work struct {
	Program *Program
	Rule    *Rule
	Kind    WorkKind
	// Synchronize: generated objects are kept equal to their source.
	Synchronize bool
	// SkipBackground: requests of the background controller itself cause no work.
	SkipBackground bool
	// Trigger is the object for which the rule is executed; nil for that of the request.
	Trigger *Source
	// OfSource: the request's object is a source that the rule copies. The work covers all of its copies.
	OfSource bool
	// Propagation is the deletion propagation for dependents: Foreground, Background or Orphan; empty for the default.
	Propagation string
	// Planned: the evaluation was asked to plan (engine.Input.Plan), so that Generated is complete, up to Err.
	Planned   bool
	Generated []Generated
	// Targets are the objects that a mutate rule evaluated, with its changes; complete when Planned, up to Err.
	Targets []Mutated
	// Err is the error that ended the plan; the part before it is valid.
	Err error
}

// Mutated is one target of a mutate rule, before and after the change.
type Mutated struct {
	Before map[string]any
	// After is nil if nothing is written: the rule skipped the target, changed nothing, or failed.
	After map[string]any
	// Subresource is the written subresource; empty for the object itself.
	Subresource string
	Status      Status
	Message     string
}

// Generated is one object that a generate rule makes, with its labels, exactly as it is written.
type Generated struct {
	Object map[string]any
	// Source is the copied object; nil when the policy holds the content.
	Source *Source
	// SourceVersion is the resourceVersion of the source as it was copied; empty if unknown.
	SourceVersion string
}

// Source names a copied object.
type Source struct{ APIVersion, Kind, Namespace, Name, UID string }

// Outcome is the result of an evaluation of Programs on one Request.
type Outcome struct {
	Request  *Request
	Results  []Result
	Object   *value.Doc // the object after mutation; Request.Object when nothing was changed
	Work     []Work
	Warnings []string
	// FailurePolicy is Fail as soon as one evaluated Program uses Fail.
	FailurePolicy FailurePolicy
	// Exceeded are the policies that exceeded a budget; their results from that rule on have status error.
	Exceeded []Exceeded
}

// Exceeded is a policy that exceeded its budget for one request, or the share of its namespace.
type Exceeded struct {
	Program *Program
	Rule    *Rule // the rule that exceeded it
	Message string
}

// Decision is the verdict on a request.
type Decision struct {
	Allowed  bool
	Message  string
	Warnings []string
}

// Selection is a Program with its candidate rules for a request, in order.
type Selection struct {
	Program *Program
	Rules   []*Rule
}
