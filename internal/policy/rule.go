package policy

import (
	"context"

	"github.com/ephor-dev/ephor/internal/value"
)

// Stage is a kind of evaluation in which a rule takes part.
type Stage uint8

// The stages, in the order in which an admission review passes them.
const (
	StageMutate Stage = 1 << iota
	StageVerifyImages
	StageValidate
	StageGenerate
	StageMutateExisting
	StageDelete
)

// Has reports whether any stage of o is in s.
func (s Stage) Has(o Stage) bool { return s&o != 0 }

// RuleKind is the kind of a rule, by its API field: validate.pattern, validate.deny, mutate.patchStrategicMerge …
type RuleKind string

// Origin is the origin of a rule.
type Origin struct {
	// Parent is the authored rule's name when the rule was generated for pod controllers, else empty.
	Parent string
	// Controllers is "autogen" or "autogen-cronjob" for generated rules, else empty.
	Controllers string
	// Custom: the rule was generated for Pods inside custom resources.
	Custom bool
}

// IsAutogen reports whether the rule was generated for pod controllers.
func (o Origin) IsAutogen() bool { return o.Parent != "" }

// Needs holds the data that a rule's compiled expressions read; it is derived from their free variables.
type Needs struct {
	User      bool // username, groups, service account
	Roles     bool // roles and clusterRoles of the requester: bindings have to be resolved
	OldObject bool
	Images    bool
	// NamespaceLabels: a namespaceSelector, in match or in an action override.
	NamespaceLabels bool
	// Lookups: a context entry that reads the world.
	Lookups bool
	// Operation: request.operation.
	Operation bool
}

// Merge adds the needs of o.
func (n *Needs) Merge(o Needs) {
	n.User = n.User || o.User
	n.Roles = n.Roles || o.Roles
	n.OldObject = n.OldObject || o.OldObject
	n.Images = n.Images || o.Images
	n.NamespaceLabels = n.NamespaceLabels || o.NamespaceLabels
	n.Lookups = n.Lookups || o.Lookups
	n.Operation = n.Operation || o.Operation
}

// Rule is one computed rule of a Program: a matcher and an evaluator.
type Rule struct {
	Name   string
	Kind   RuleKind
	Stage  Stage
	Index  int    // position in Program.Rules
	Path   string // field path of the authored rule, such as spec.rules[2]
	Origin Origin
	Action ActionPlan
	// OnError decides what an error of the rule means for the request.
	OnError ErrorMeaning
	Needs   Needs
	// Services: a CEL expression calls an HTTP service. Globals: one reads a global context entry.
	Services, Globals bool
	// Object holds the fields of the request's object that Eval reads; nil for any field. A review decodes only these. (Queries inside
	// values are not known before: Request.Unforeseen.)
	Object *value.Fields
	// Targets cover every request that Match can accept. The index, the webhook rules and the scans use them.
	Targets []Target
	// Excludes are the excluded Targets, as far as a Target can express them: Match accepts no request that one of them matches.
	Excludes []Target
	// Labels is a label selector that each object matches that Match accepts without an old object; empty for all. Scans list objects with
	// it.
	Labels string
	// Payload is the type of documents that the rule evaluates (Request.Payload); NoPayload for Kubernetes objects only.
	Payload Payload
	// Header holds the literal conditions of match and exclude; nil if unknown.
	Header *Header
	// Outputs are the kinds of objects that a generate rule creates, if the policy names them.
	Outputs []Output
	// Grants are the rights on other objects that the rule's work needs.
	Grants []Grant
	// Foreseen are further rights that the work needs, as far as the text of the policy names the objects. The status of the policy
	// reports the missing ones; no review refuses the policy for them.
	Foreseen []Grant
	// Generation holds how a generate rule treats its objects; nil for other rules.
	Generation *Generation
	// OnBackground: requests of the background controller cause work of the rule, too (skipBackgroundRequests: false).
	OnBackground bool
	// OnPolicyChange: a mutate rule with targets is executed for all its triggers when its policy changes.
	OnPolicyChange bool
	// WithoutTrigger: the work after a change of the policy does not depend on the trigger, so it is executed once, without one.
	WithoutTrigger bool
	// ReportsTargets: the work of the policy on existing objects gives each target a result of its own in the reports, besides that of the
	// trigger.
	ReportsTargets bool
	// AllowExisting: a violation that the old object already had does not block an update (validate rules, not foreach).
	AllowExisting bool
	// ReportProperties are copied into the results; Result.Properties holds them with resolved variables.
	ReportProperties map[string]string
	// Exceptions are those that name the rule; the catalog adds them after Compile.
	Exceptions []*Exception
	// NoScan: scans do not evaluate the rule, although it validates, because its result is known from the admission of the object.
	NoScan bool
	// Shared: the results of such rules depend on one another (Yield.Settle), so they are evaluated together: all before the answer if one
	// is, and all again if a scan evaluates one again.
	Shared bool
	// SkipOnDelete: a DELETE request yields no result.
	SkipOnDelete bool
	// Offline describes the rule's behaviour on the command line.
	Offline Offline
	// Annotates: results may have Annotations, which must be known before the request is answered.
	Annotates bool

	// MatchSteps is the maximum number of steps of Match, beside those that it counts on the meter of its context (budget.Of); 0 if both
	// are negligible.
	MatchSteps int
	// Match reports whether the rule's match and exclude blocks select the request. An error means that the answer is unknown (a lookup
	// failed); it never means false.
	Match func(ctx context.Context, r *Request) (bool, error)
	// Eval evaluates a request that Match selected.
	Eval func(c *Call) Yield
}

// Output is a kind of objects that a generate rule creates.
type Output struct {
	APIVersion, Kind string
	// Namespace is their namespace, possibly with variables; empty for cluster-scoped objects.
	Namespace string
	// List: they are copies of a cloneList, whose namespace is ignored for cluster-scoped kinds.
	List bool
	// Copy: they are copies of other objects of the kind.
	Copy bool
	Path string // of the pattern, such as spec.rules[0].generate
}

// Grant is a right on objects of a kind that the rule's work needs.
type Grant struct {
	// APIVersion and Kind may hold variables; the kind may be one of a subresource, Kind/sub.
	APIVersion, Kind string
	// ByResource: Kind is the plural name of a resource, perhaps with its subresource.
	ByResource bool
	// Namespace and Name may hold variables, the name also wildcards; empty for all, or for cluster-scoped objects.
	Namespace, Name string
	Verbs           []string
	// Source: the objects are only read, to be copied.
	Source bool
	// Selector is the label selector of a cloneList, in a comparable form; empty without one.
	Selector string
	Path     string // of the field that needs it, such as spec.rules[0].mutate.targets
}

// Generation defines how a generate rule treats its objects.
type Generation struct {
	Existing        bool // objects that existed before the policy are triggers, too
	Synchronize     bool // generated objects are kept equal to their source
	Orphan          bool // generated objects stay when the policy is deleted
	ServerSideApply bool
	// Own: the rule writes only to objects that it created, and leaves another object of the same name alone.
	Own bool
	// Exact: if the rule synchronizes, objects that it no longer generates for a trigger are deleted.
	Exact bool
	// Watched: if the rule synchronizes, the background controller watches its objects and the sources of copies, so that webhooks need not
	// be called for them.
	Watched bool
	// KeepCopies: copies stay when the policy is deleted.
	KeepCopies bool
	// ReportsExempt: a request that exceptions exempt is in reports, although it causes no work.
	ReportsExempt bool
}

// ObjectReads returns the fields that the decoder keeps for rules that read these fields of the object (nil for none); nil for any.
// Metadata (except managedFields) and kind are always kept.
func ObjectReads(fields *value.Fields) *value.Fields {
	if fields != nil && fields.All() {
		return nil
	}
	out := &value.Fields{}
	out.Member("apiVersion")
	out.Member("kind")
	out.Member("metadata").ReadAllBut("managedFields")
	if fields != nil {
		out.Merge(fields)
	}
	return out
}

// IsFor reports whether the rule applies to requests with documents of the type. Deletion rules also evaluate JSON documents.
func (r *Rule) IsFor(p Payload) bool {
	return r.Payload.Fits(p) || p == JSONPayload && r.Stage.Has(StageDelete)
}
