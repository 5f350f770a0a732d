package policy

import (
	"time"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
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

// TextPreExisting is the message of a violation that is tolerated because the old object had it. It is Kyverno's, verbatim.
const TextPreExisting = "skipping the rule evaluation as pre-existing violations are allowed"

// Yield is the result of one evaluation of a rule. The zero Yield is "no result".
type Yield struct {
	Status Status
	// Warn: the result becomes a warning of an admitted request, regardless of the policy's settings.
	Warn bool
	// Unknown: a lookup had no answer, so neither the policy nor the object is wrong. Such an error does not deny a request if
	// failurePolicy is Ignore.
	Unknown bool
	// Unmatched: the match conditions of the policy are false, so the policy is not about the object. Reports leave the result out; the
	// command line shows it as a skip.
	Unmatched bool
	// Admitted: exceptions admit the request in spite of the failure.
	Admitted bool
	Message  string
	// Cause is the error behind a result with status error, from which the command line explains it; nil if only the message is known.
	Cause      error
	Path       string // the path in the object at which a pattern failed, such as /spec/containers/0/image/
	Properties map[string]string
	// Annotations are annotations for the audit event of the request. The keys are qualified names without a prefix.
	Annotations map[string]string
	// Exceptions are the exceptions that exempt the request. The status is skip, or pass if they request that; it is fail if they only change
	// the action (Admitted).
	Exceptions []*Exception
	// Object is the object after a mutate rule; nil if the rule changed nothing. With status error it is an empty object if the patch
	// itself failed, and nil if the rule failed before the patch. A change without a result is not reported.
	Object *value.Doc
	// Work is the deferred change that a generate or mutate-existing rule requests.
	Work []Work
	// Part is the part of the policy that produced the result, for reports that name it instead of the rule; empty for the rule.
	Part string
	// Signatures holds additional results of a rule that verifies images; nil for all other rules.
	Signatures *Signatures
	// Also are further results of the same evaluation, in order: a verifyImages rule has one result for each image. Object
	// and Work belong to the first result.
	Also []Yield
}

// Signatures holds the results of verifying images. It is a separate type because most rules have none, and a Yield is copied often.
type Signatures struct {
	// Images are the images whose signatures the evaluation verified; the value is true if a signature was accepted.
	Images map[string]bool
	// Attested are the results of the attestors that led to the result.
	Attested []Attested
	// Settle is called with all results after all rules are evaluated, and returns the final result; nil keeps this result.
	Settle func(all []Result) Yield
}

// PropertyExceptions is the property of an exempt result with the names of the exceptions that applied, separated by commas.
const PropertyExceptions = "exceptions"

// PropertyWithoutException is the property of an exempt result with the status that the rule would have without exceptions.
const PropertyWithoutException = "withoutException"

// elementsProperty is the property with the elements for which a foreach rule fails.
const elementsProperty = "failingElements"

// Failing sets the elements for which a foreach rule fails, such as "0 nginx, 2 redis"; empty leaves the result as it is. Reports have them as
// a property, since their message is the one that the policy defines; Explained adds them for people.
func (y *Yield) Failing(elements string) {
	if elements != "" {
		y.Properties = map[string]string{elementsProperty: elements}
	}
}

// Explained returns the message with all elements for which the rule fails.
func (y *Yield) Explained() string { return Explained(y.Message, y.Properties) }

// Explained returns the message of a result with these properties, with all elements for which the rule fails.
func Explained(message string, properties map[string]string) string {
	if elements := properties[elementsProperty]; elements != "" {
		return message + " (fails for the elements " + elements + ")"
	}
	return message
}

// Attested returns the results of the attestors that led to the result.
func (y *Yield) Attested() []Attested {
	if y.Signatures == nil {
		return nil
	}
	return y.Signatures.Attested
}

// Attested is the result of one attestor for an image: pass if the attestor signed it, fail if it did not, error if that could not be
// determined.
type Attested struct {
	Image    string // with its digest, if known
	Path     string // the path of the attestor in the rule, or its name
	Type     string // the type of the statement; empty for a signature of the image
	Attestor *world.Attestor
	Status   Status
}

// Result is the result of one rule for one request.
type Result struct {
	Program *Program
	Rule    *Rule
	Yield
	Action Action // effective action of the rule for the request's namespace
	// OfTarget: the object is a target of the rule's work, not the trigger.
	OfTarget bool
	// Elapsed is the time that the rule took, including matching and lookups. It is 0 if times are not measured, and for all
	// but the first result of one evaluation.
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

// MaxHops is the number of consecutive writes of the background controller that may each cause further work.
const MaxHops = 10

// Work is a deferred change that a rule requests. The background controller executes it; the command line prints it.
type Work struct {
	Program *Program
	Rule    *Rule
	Kind    WorkKind
	// Synchronize: generated objects are kept in sync with their source.
	Synchronize bool
	// SkipBackground: requests of the background controller itself do not cause work.
	SkipBackground bool
	// Trigger is the object for which the rule is executed; nil for the object of the request.
	Trigger *Source
	// OfSource: the request's object is a source that the rule copies. The work covers all of its copies.
	OfSource bool
	// Propagation is the deletion propagation for dependents: Foreground, Background or Orphan; empty for the default.
	Propagation string
	// Planned: the evaluation was asked for a plan (engine.Input.Plan), so Generated is complete, up to Err.
	Planned   bool
	Generated []Generated
	// Targets are the objects that a mutate rule evaluated, with its changes. They are complete if Planned is set, up to Err.
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

// Generated is one object that a generate rule creates, with its labels, exactly as it is written.
type Generated struct {
	Object map[string]any
	// Source is the copied object; nil if the policy contains the content.
	Source *Source
	// SourceVersion is the resourceVersion of the source when it was copied; empty if unknown.
	SourceVersion string
}

// Source names a copied object.
type Source struct{ APIVersion, Kind, Namespace, Name, UID string }

// Outcome is the result of an evaluation of Programs on one Request.
type Outcome struct {
	Request  *Request
	Results  []Result
	Object   *value.Doc // the object after mutation; Request.Object if nothing was changed
	Work     []Work
	Warnings []string
	// FailurePolicy is Fail if any evaluated Program uses Fail.
	FailurePolicy FailurePolicy
	// Exceeded are the policies that exceeded a budget, or a rule of which did. From the rule that exceeded the budget of the policy on, all
	// results have status error.
	Exceeded []Exceeded
	// ExceptionErrors are the exceptions that could not be evaluated, each once. They exempted nothing.
	ExceptionErrors []ExceptionError
}

// Exceeded is a policy that exceeded its budget for one request, or the share of its namespace.
type Exceeded struct {
	Program *Program
	Rule    *Rule // the rule that exceeded it
	Message string
}

// ExceptionError is an exception that could not be evaluated for a request. It exempts nothing, and changes no result of the rule.
type ExceptionError struct {
	Exception *Exception
	Program   *Program
	Rule      *Rule // the first rule for which it was evaluated
	Message   string
}

// Decision is the verdict on a request.
type Decision struct {
	Allowed  bool
	Message  string
	Warnings []string
}

// Selection is a Program with the rules that may apply to a request, in order.
type Selection struct {
	Program *Program
	Rules   []*Rule
}
