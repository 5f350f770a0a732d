package policy

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// Stage is a kind of evaluation in which a rule takes part.
type Stage uint8

// The stages, in the order of an admission review.
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

// Origin describes the origin of a rule.
type Origin struct {
	// Parent is the name of the authored rule if the rule was generated for Pod controllers; otherwise it is empty.
	Parent string
	// Controllers is "autogen" or "autogen-cronjob" for generated rules; otherwise it is empty.
	Controllers string
	// Custom: the rule was generated for Pods inside custom resources.
	Custom bool
}

// IsAutogen reports whether the rule was generated for Pod controllers.
func (o Origin) IsAutogen() bool { return o.Parent != "" }

// Needs describes the data that a rule's compiled expressions read. It is derived from their free variables.
type Needs struct {
	User      bool // username, groups, service account
	Roles     bool // roles and clusterRoles of the requester, for which bindings must be resolved
	OldObject bool
	Images    bool
	// NamespaceLabels: a namespaceSelector in match or in an action override reads them.
	NamespaceLabels bool
	// Lookups: a context entry reads the World.
	Lookups bool
	// Operation: an expression reads request.operation.
	Operation bool
	// Registries: the rule reads image registries.
	Registries bool
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
	n.Registries = n.Registries || o.Registries
}

// Rule is one rule of a Program, authored or generated: a matcher and an evaluator.
type Rule struct {
	Name   string
	Kind   RuleKind
	Stage  Stage
	Index  int    // position in Program.Rules
	Path   string // field path of the authored rule, such as spec.rules[2]
	Origin Origin

	Matching // the requests that the rule is for
	Reads    // what it reads of a request and of the cluster
	Effect   // what a result means
	WorkPlan // the work that it causes; empty for a rule without

	// Exceptions are the exceptions that name the rule. The catalog adds them after Compile.
	Exceptions []*Exception
	// Latest is the level of the Pod Security Standards whose latest version, that of the API server, the rule checks; empty for none.
	Latest string
	// Offline describes the rule's behaviour on the command line.
	Offline Offline
	// Eval evaluates a request that Match has selected.
	Eval func(c *Call) Yield
}

// Matching says which requests a rule is for: exactly, by Match, and as a superset that can be compared and indexed without a request.
type Matching struct {
	// Targets cover every request that Match can accept. The index, the webhook rules and the scans use them.
	Targets []Target
	// Excludes are the excluded Targets, as far as a Target can express them. Match rejects every request that one of them matches.
	Excludes []Target
	// Labels is a label selector that matches every object that Match can accept in a request without an old object; empty for all. Scans
	// list objects with it.
	Labels string
	// Payload is the type of documents that the rule evaluates (Review.Payload); NoPayload for Kubernetes objects only.
	Payload Payload
	// Header holds the literal conditions of match and exclude; nil if unknown.
	Header *Header
	// MatchSteps is the maximum number of steps of Match, in addition to those that it counts on the meter of its context (budget.Of); 0
	// if both are negligible.
	MatchSteps int
	// Match reports whether the rule's match and exclude blocks select the request. An error means that the answer is unknown because a
	// lookup failed; it does not mean false.
	Match func(ctx context.Context, r *Request) (bool, error)
}

// Reads says what the expressions of a rule read.
type Reads struct {
	Needs Needs
	// OwnNeeds are the Needs without those of the rule's exceptions; nil for a rule without exceptions.
	OwnNeeds *Needs
	// Services: a CEL expression calls an HTTP service. Globals: a CEL expression reads a global context entry.
	Services, Globals bool
	// Object holds the fields of the request's object that Eval reads; nil for any field. A review decodes only these fields. (Queries
	// inside values are not known in advance: see Request.Unforeseen.)
	Object *value.Fields
	// Content holds the fields of the request's object that Eval reads, without those that decoders always keep; nil for any field.
	Content *value.Fields
}

// Effect says what the results of a rule mean for the request and for reports.
type Effect struct {
	Action ActionPlan
	// OnError determines the effect of an error of the rule on the request.
	OnError ErrorMeaning
	// VerifiesImages: the rule asks registries and logs about images. An error does not deny a request if the rule's action does not, whatever
	// failurePolicy is; it becomes a warning. A rule that does not deny gets half of the time that is left, so that those after it are evaluated.
	VerifiesImages bool
	// AllowExisting: a violation that the old object already has does not block an update (validate rules, not foreach).
	AllowExisting bool
	// SkipOnDelete: the rule has no result for a DELETE request.
	SkipOnDelete bool
	// NoScan: scans do not evaluate the rule although it validates, because its result is known from the admission of the object, or from the
	// work on its targets.
	NoScan bool
	// Shared: the results of such rules depend on each other (Yield.Settle), so they are evaluated together: if one of them is evaluated
	// before the request is answered, all are, and if a scan evaluates one again, it evaluates all again.
	Shared bool
	// Annotates: results may have Annotations, which must be known before the request is answered.
	Annotates bool
	// ReportProperties are copied to the results. Result.Properties holds them with resolved variables.
	ReportProperties map[string]string
}

// WorkPlan says what a rule does later, in the background controller, and with which rights.
type WorkPlan struct {
	// Generation defines how a generate rule handles its objects; nil for other rules.
	Generation *Generation
	// Outputs are the kinds of objects that a generate rule creates, if the policy names them.
	Outputs []Output
	// Grants are the rights on other objects that the rule's work needs.
	Grants []Grant
	// Foreseen are further rights that the work needs, as far as the text of the policy names the objects. The status of the policy
	// reports missing ones, but the review does not reject the policy because of them.
	Foreseen []Grant
	// OldContent says which parts of a rule with deferred work read the content of an object that is not there any more.
	OldContent OldContent
	// OnBackground: requests of the background controller also cause work of the rule (skipBackgroundRequests: false).
	OnBackground bool
	// OnPolicyChange: a mutate rule with targets is executed for all its triggers when its policy changes.
	OnPolicyChange bool
	// WithoutTrigger: after a change of the policy, the work does not depend on a trigger, so it is executed once, without a trigger.
	WithoutTrigger bool
	// ReportsTargets: for work on existing objects, the reports contain a result for each target in addition to that of the trigger.
	ReportsTargets bool
}

// Output is a kind of objects that a generate rule creates.
type Output struct {
	APIVersion, Kind string
	// Namespace is the namespace of the objects, possibly with variables; empty for cluster-scoped objects.
	Namespace string
	// List: the objects are copies of a cloneList, whose namespace is ignored for cluster-scoped kinds.
	List bool
	// Copy: the objects are copies of other objects of the kind.
	Copy bool
	Path string // the path of the pattern, such as spec.rules[0].generate
}

// Grant is a right on objects of a kind that the rule's work needs.
type Grant struct {
	// APIVersion and Kind may contain variables. The kind may be that of a subresource, Kind/sub.
	APIVersion, Kind string
	// ByResource: Kind is the plural name of a resource, possibly with a subresource.
	ByResource bool
	// Namespace and Name may contain variables, and Name may contain wildcards. They are empty for all, or for cluster-scoped objects.
	Namespace, Name string
	Verbs           []string
	// Source: the objects are only read, in order to copy them.
	Source bool
	// Selector is the label selector of a cloneList in a comparable form; empty without one.
	Selector string
	Path     string // the path of the field that needs the right, such as spec.rules[0].mutate.targets
}

// Generation defines how a generate rule handles its objects.
type Generation struct {
	Existing        bool // objects that existed before the policy are triggers, too
	Synchronize     bool // generated objects are kept in sync with their source
	Orphan          bool // generated objects stay when the policy is deleted
	ServerSideApply bool
	// Own: the rule only writes objects that it created, and does not change another object with the same name.
	Own bool
	// Exact: if the rule synchronizes, objects that it no longer generates for a trigger are deleted.
	Exact bool
	// Watched: if the rule synchronizes, the background controller watches its objects and the sources of copies, so that no webhooks are
	// necessary for them.
	Watched bool
	// KeepCopies: copies stay when the policy is deleted. As in Kyverno, that is so for a GeneratingPolicy that does not say what happens to its
	// objects.
	KeepCopies bool
	// ReportsExempt: reports contain a request that exceptions exempt, although it causes no work.
	ReportsExempt bool
}

// OldContent are the parts of a rule that read the content of the old object of an update, or of a deleted object. UpdateRequests do not hold
// that of Secrets: conditions that read it count as they were at admission (Request.Held), and other parts cannot.
type OldContent struct {
	Conditions bool // preconditions, or the matchConditions of a policy in CEL
	Elsewhere  bool
	// Deletions: other parts read that of a deleted object, and the rule is about other operations, too.
	Deletions bool
}

// OldContentOf returns the OldContent of a rule whose other parts read, with deletions or without, what reads says.
func OldContentOf(r *Rule, conditions bool, reads func(deletes bool) bool) OldContent {
	out := OldContent{Conditions: conditions, Elsewhere: reads(false)}
	if out.Elsewhere || !slices.ContainsFunc(r.Targets, Target.Deletes) || !reads(true) {
		return out
	}
	onlyDeletes := !slices.ContainsFunc(r.Targets, func(t Target) bool { return len(t.Operations) > 1 || !t.Deletes() })
	out.Elsewhere, out.Deletions = onlyDeletes, !onlyDeletes
	return out
}

// AboutSecrets reports whether a rule may be about Secrets, and whether it names them.
func AboutSecrets(r *Rule) (about, named bool) {
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Subresource != "" && t.Subresource != "*" || t.Group != "" && t.Group != "*" {
			continue
		}
		name, literal := "Secret", t.Kind
		if t.ByResource() {
			name, literal = "secrets", t.Resource
		}
		named = named || literal == name
		about = about || wildcard.Match(literal, name)
	}
	return about, named
}

// ObjectReads returns the fields that the decoder must keep if rules read these fields of the object. In fields, nil means none; in
// the result, nil means any. Metadata (except managedFields) and kind are always kept.
func ObjectReads(fields *value.Fields) *value.Fields {
	out := ContentReads(fields)
	if out != nil {
		kept := &value.Fields{}
		kept.Member("metadata").ReadAllBut("managedFields")
		kept.Merge(out)
		return kept
	}
	return nil
}

// ContentReads returns fields for Rule.Content, with the kind. In fields, nil means none; in the result, nil means any.
func ContentReads(fields *value.Fields) *value.Fields {
	if fields != nil && fields.All() {
		return nil
	}
	out := &value.Fields{}
	out.Member("apiVersion")
	out.Member("kind")
	if fields != nil {
		out.Merge(fields)
	}
	return out
}

// AsksRequester reports whether the rule depends on the requester.
func (r *Rule) AsksRequester() bool { return r.Needs.User || r.Needs.Roles }

// IsFor reports whether the rule applies to requests with documents of this type. Deletion rules also evaluate JSON documents.
func (r *Rule) IsFor(p Payload) bool {
	return r.Payload.Fits(p) || p == JSONPayload && r.Stage.Has(StageDelete)
}

// AsksAboutPods reports whether a target of the rule covers requests for Pods with the operation, or for a subresource of Pods.
func (r *Rule) AsksAboutPods(operation Operation, sub string) bool {
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	request := &Request{Review: Review{
		Operation: operation, GVK: pod, RequestGVK: pod, GVR: pod.GroupVersion().WithResource("pods"), Subresource: sub, Namespace: "default",
	}}
	return slices.ContainsFunc(r.Targets, func(t Target) bool {
		s := t.Compile()
		return s.Covers(request)
	})
}
