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

// RuleKind names what the rule does, with the words of the API: validate.pattern, validate.deny, mutate.patchStrategicMerge …
type RuleKind string

// Origin says how a rule came to be.
type Origin struct {
	// Parent is the authored rule's name when the rule was generated for pod controllers, else empty.
	Parent string
	// Controllers is "autogen" or "autogen-cronjob" for generated rules, else empty.
	Controllers string
	// Custom: the rule was generated for Pods inside resources of kinds that are not Kubernetes' own.
	Custom bool
}

// IsAutogen reports whether the rule was generated for pod controllers.
func (o Origin) IsAutogen() bool { return o.Parent != "" }

// Needs holds what a rule's compiled expressions read; it is derived from their free variables.
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

// Merge adds what o needs.
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
	// Services: an expression of CEL calls an HTTP service. Globals: one reads a global context entry.
	Services, Globals bool
	// Object holds the parts of the request's object that Eval reads; nil: any part. A review decodes only these. (Queries that arrive
	// inside values are unknown before: Request.Unforeseen.)
	Object *value.Fields
	// Targets cover every request that Match can accept. The index, the webhook rules and the scans are made of them.
	Targets []Target
	// Excludes are the excluded Targets, as far as a Target can express them: Match accepts no request that one of them matches.
	Excludes []Target
	// Labels is a label selector of the API server that each object fulfils that Match accepts without an old object; empty
	// for all. Objects that exist are listed with it.
	Labels string
	// Payload is the sort of documents that the rule evaluates (Request.Payload); NoPayload for objects of a cluster only.
	Payload Payload
	// Header holds the literals of match and exclude; nil when nothing is known.
	Header *Header
	// Outputs are the kinds of the objects that a generate rule makes, as far as the policy names them.
	Outputs []Output
	// Grants are the rights on other objects that the rule's work needs.
	Grants []Grant
	// Foreseen are further rights that the work needs, as far as the text of the policy names the objects. The status of the policy
	// reports the missing ones; no review refuses the policy for them.
	Foreseen []Grant
	// Generation holds how a generate rule treats its objects; nil for other rules.
	Generation *Generation
	// OnBackground: requests of the background controller ask for the work of the rule too (skipBackgroundRequests: false).
	OnBackground bool
	// OnPolicyChange: a mutate rule with targets is carried out for all its triggers when its policy changes.
	OnPolicyChange bool
	// WithoutTrigger: what the rule does for a change of its policy is the same whatever the trigger: it is done once, for no trigger.
	WithoutTrigger bool
	// AllowExisting: a violation that the old object already had does not block an update (validate rules, not foreach).
	AllowExisting bool
	// ReportProperties are copied into the results; templates are already resolved in Result.Properties.
	ReportProperties map[string]string
	// Exceptions are those that name the rule; they are joined to it after Compile, by the catalog.
	Exceptions []*Exception
	// NoScan: a scan does not evaluate the rule, though it validates: what it says of an object was found out when the object
	// was admitted.
	NoScan bool
	// Shared: the results of such rules depend on one another (Yield.Settle). They are evaluated together: all before the answer where one
	// is, all again where a scan evaluates one again.
	Shared bool
	// SkipOnDelete: a DELETE request yields no result.
	SkipOnDelete bool
	// Offline is what is special about the rule on the command line.
	Offline Offline
	// Annotates: results may have Annotations, which have to be known before the request is answered.
	Annotates bool

	// MatchSteps is how many steps Match takes at most, apart from what it counts itself on the meter of its context
	// (budget.Of); 0 when both are too little to be counted.
	MatchSteps int
	// Match reports whether the rule's match and exclude blocks select the request. An error means that it is not
	// known (a lookup failed); it is never to be read as false.
	Match func(ctx context.Context, r *Request) (bool, error)
	// Eval evaluates a request that Match selected.
	Eval func(c *Call) Yield
}

// Output is a kind of objects that a generate rule makes.
type Output struct {
	APIVersion, Kind string
	// Namespace is where they are made, perhaps with variables; empty for cluster-scoped objects.
	Namespace string
	// List: they are copies of a cloneList, whose namespace is passed over for cluster-scoped kinds.
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
	// Selector is the label selector of a cloneList, in a form that can be compared; empty without one.
	Selector string
	Path     string // of the field that asks for it, such as spec.rules[0].mutate.targets
}

// Generation says how a generate rule treats what it made.
type Generation struct {
	Existing        bool // objects that were there before the policy are triggers too
	Synchronize     bool // what is made is kept equal to its source
	Orphan          bool // what was made stays when the policy is deleted
	ServerSideApply bool
	// Own: the rule writes only to objects that it made, and leaves another object of the same name alone.
	Own bool
	// Exact: where the rule synchronizes, objects that it no longer makes for a trigger are deleted.
	Exact bool
	// Watched: where the rule synchronizes, the background controller watches its objects and the sources of copies, so that webhooks
	// need not be called for them.
	Watched bool
	// KeepCopies: copies stay when the policy is deleted.
	KeepCopies bool
	// ReportsExempt: a request that exceptions exempt is in reports, though it leads to no work.
	ReportsExempt bool
}

// ObjectReads says what is read of the object of a request by rules that read those fields of it (nil for none); nil when that may
// be anything. The metadata, except for managedFields, and the kind are always read.
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

// IsFor reports whether the rule is for requests about documents of the sort. Rules that delete look at JSON documents, too.
func (r *Rule) IsFor(p Payload) bool {
	return r.Payload.Fits(p) || p == JSONPayload && r.Stage.Has(StageDelete)
}
