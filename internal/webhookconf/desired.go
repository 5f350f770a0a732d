package webhookconf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

// ManagedLabel is the label of every webhook configuration that we manage; its value is ManagedValue.
const (
	ManagedLabel = "webhook.kyverno.io/managed-by"
	ManagedValue = "kyverno"
)

// The names of the configurations.
const (
	PolicyValidating        = "kyverno-policy-validating-webhook-cfg"
	PolicyMutating          = "kyverno-policy-mutating-webhook-cfg"
	ResourceValidating      = "kyverno-resource-validating-webhook-cfg"
	ResourceMutating        = "kyverno-resource-mutating-webhook-cfg"
	GlobalContextValidating = "kyverno-global-context-validating-webhook-cfg"
	VerifyMutating          = "kyverno-verify-mutating-webhook-cfg"

	// The configurations with resource webhooks that Kyverno does not have. Each exists only if it has webhooks.
	ExtraValidating = "ephor-resource-validating-webhook-cfg"
	ExtraMutating   = "ephor-resource-mutating-webhook-cfg"

	// The configurations with the webhooks of namespaced policies that select resources with the fields of a webhook. Each exists only if it
	// has webhooks. The API server calls mutating webhooks in the order of these names.
	NamespacedValidating = ResourceValidating + "-namespaced"
	NamespacedMutating   = ResourceMutating + "-namespaced"
)

// IsResource reports whether the configuration of that name holds webhooks for the resources that policies match.
func IsResource(name string) bool {
	for _, base := range []string{ResourceValidating, ResourceMutating, ExtraValidating, ExtraMutating} {
		if strings.HasPrefix(name, base) {
			return true
		}
	}
	return false
}

// MaxTimeoutSeconds is the maximum timeout that the API server accepts.
const MaxTimeoutSeconds = 30

// Options are the start-up flags that determine the configurations.
type Options struct {
	Namespace, Service string
	ServicePort        int32
	// ServerIP, if set, is the host (and port) in a URL that replaces the Service.
	ServerIP       string
	TimeoutSeconds int32
	// AdmissionReports: validation has a side effect, since it writes reports.
	AdmissionReports bool
	// Static: the resource webhooks cover all resources and do not follow the policies (--autoUpdateWebhooks=false).
	Static bool
	// ExcludeBootstrap excludes nodes and certificate signing requests from every webhook that fails closed, even if a policy names them
	// (--excludeBootstrapResources).
	ExcludeBootstrap bool
	// Derive adds conditions that are derived from the policies (--deriveMatchConditions).
	Derive bool
	// Path converts a plain path to the path of the webhook (route.Epoch.Path); nil for plain paths.
	Path func(plain string) string
	// Protects: the resource webhooks deny requests that change our objects (--protectManagedResources).
	Protects bool
	// Approvals: changes of the status of exceptions are reviewed, too, since it has their approval (--exceptionApproval).
	Approvals bool
}

// Input is everything on which the configurations depend.
type Input struct {
	Programs  []*policy.Program
	Settings  *settings.Settings
	CABundle  []byte
	Resources discovery.Resources
	Options   Options
	// Conditions checks match conditions; nil if they need no check.
	Conditions *Conditions
	// Settling: discovery may soon list further kinds (ErrSettling).
	Settling bool
	// Owner is the object whose deletion removes the configurations (FindOwner). It is nil only in tests.
	Owner *metav1.OwnerReference
	// Families are the families of the policies; nil for those of Ephor.
	Families *compile.Registry
	// Stored returns the stored rules of a resource webhook, or nil if there are none. A webhook keeps its rules while discovery is
	// incomplete, so that rules are only removed when all kinds are known.
	Stored func(configuration, webhook string) []admissionv1.RuleWithOperations
}

// Configurations are the webhook configurations that should be stored.
type Configurations struct {
	Validating []*admissionv1.ValidatingWebhookConfiguration
	Mutating   []*admissionv1.MutatingWebhookConfiguration
	// Unconfined are the names of the shared webhooks that are called for all namespaces because of namespaced policies. This happens if so
	// many namespaces have policies that a condition cannot name them all.
	Unconfined []string

	path func(plain string) string // copied from Options.Path
	// serves holds the policies of the resource webhooks.
	serves map[webhookKey][]*policy.Program
}

// webhookKey identifies a webhook by its name and the name of its configuration.
type webhookKey struct{ configuration, webhook string }

// record keeps the policies of a configuration's webhooks.
func (c *Configurations) record(configuration string, webhooks []webhook) {
	for i := range webhooks {
		c.serves[webhookKey{configuration, webhooks[i].Name}] = webhooks[i].programs
	}
}

// Readiness reports for each Program whether its rules are in the configurations. The key is the Program's Key with the kind before it (see
// ProgramKey). The value is the reason if they are not.
type Readiness map[string]error

// ErrSettling is the Readiness of a policy that names a kind that is not served, while Input.Settling is set.
var ErrSettling = errors.New("a kind that the policy names is not served yet")

// LeftOut is the Readiness of a policy whose webhooks are not written, because the API server rejects them, or because they are too large.
type LeftOut struct{ error }

// Unwrap returns the reason.
func (l LeftOut) Unwrap() error { return l.error }

// ProgramKey returns a key that identifies a Program among all kinds.
func ProgramKey(p *policy.Program) string { return p.Kind + "/" + p.Key() }

// Desired computes the configurations. unknown is the number of kind selectors that select nothing that the API server serves. These are
// left out, and their policies are ready. An error means that discovery failed completely; then the stored configurations must stay.
func Desired(in Input) (_ Configurations, ready Readiness, unknown int, err error) {
	b := &builder{Input: in, ready: Readiness{}, mut: phase{mutating: true}}
	for _, p := range in.Programs {
		b.ready[ProgramKey(p)] = nil
		if in.Options.Static && p.Settings.Admission && withoutStatic(p) {
			b.ready[ProgramKey(p)] = errNoStatic
		}
		if !p.Settings.Admission || in.Options.Static {
			continue
		}
		for i := range p.Webhooks {
			b.addPolicy(p, &p.Webhooks[i])
		}
	}
	if b.err != nil {
		return Configurations{}, nil, 0, b.err
	}
	if in.Options.Static {
		b.addAll()
	}
	out := Configurations{
		path: in.Options.Path, serves: map[webhookKey][]*policy.Program{},
		Validating: []*admissionv1.ValidatingWebhookConfiguration{b.validating(PolicyValidating, b.policyValidating())},
		Mutating: []*admissionv1.MutatingWebhookConfiguration{
			b.mutating(PolicyMutating, b.policyMutating()),
			b.mutating(VerifyMutating, b.verify()),
		},
	}
	for _, x := range in.Families.Exceptions() {
		out.Validating = append(out.Validating, b.validating(x.Configuration, b.exceptionValidating(x)))
	}
	out.Validating = append(out.Validating, b.validating(GlobalContextValidating, b.globalContextValidating()))
	validating, mutating := b.resource(&b.val), b.resource(&b.mut)
	for _, name := range slices.Sorted(maps.Keys(validating)) {
		for i, part := range splitBySize(validating[name]) {
			c := b.validating(partName(name, i), part)
			b.annotateStatic(&c.ObjectMeta)
			out.record(c.Name, part)
			out.Validating = append(out.Validating, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mutating)) {
		for i, part := range splitBySize(mutating[name]) {
			c := b.mutating(partName(name, i), part)
			b.annotateStatic(&c.ObjectMeta)
			out.record(c.Name, part)
			out.Mutating = append(out.Mutating, c)
		}
	}
	for _, s := range []*phase{&b.val, &b.mut} {
		for _, h := range s.drafts {
			if h.unconfined {
				out.Unconfined = append(out.Unconfined, h.name)
			}
		}
	}
	slices.Sort(out.Unconfined)
	return out, b.ready, b.unknown, nil
}

type builder struct {
	Input
	ready    Readiness
	unknown  int
	err      error
	val, mut phase
	used     map[string]quota // by namespace
}

// phase collects the resource webhooks of one configuration.
type phase struct {
	mutating bool
	drafts   map[string]*draft // by path
	groups   map[groupKey]*selectorGroup
}

func (b *builder) phase(mutating bool) *phase {
	if mutating {
		return &b.mut
	}
	return &b.val
}

// draft is a webhook under construction. Its name and path are derived from its key.
type draft struct {
	name, path     string
	failurePolicy  policy.FailurePolicy
	timeout        int32
	conditions     []policy.MatchCondition
	fine           bool   // the webhook of one policy
	authored       bool   // the policy has match conditions, which replace those of the ConfigMap
	namespace      string // the namespace of the one policy; empty for shared webhooks and cluster-wide policies
	policyCoverage        // the resources of cluster-wide policies, or of the one policy
	// namespaces holds the resources of namespaced policies in a shared webhook, by namespace.
	namespaces map[string]*policyCoverage
	// unconfined: a condition cannot hold the names of all namespaces (Configurations.Unconfined).
	unconfined bool
	programs   []*policy.Program
}

// policyCoverage holds the resources that a part of a webhook's policies match.
type policyCoverage struct {
	rules      coverage.Set
	wild       bool // a wildcard adds kinds that no policy names
	named      namedResources
	incomplete bool                // some kinds could not be looked up
	resize     coverage.Operations // the operations on pods/resize, for policies on Pods
	derived    derivation

	// These three fields are described in versions.go.
	versions  coverage.Versions       // of the resources that cluster-wide policies name
	wildcards coverage.Set            // wildcards that would change the versions of other policies
	exact     map[string]coverage.Set // resources that namespaced policies name with a version, by policy key
}

func newCoverage(s *phase) *policyCoverage {
	return &policyCoverage{rules: coverage.Set{}, resize: coverage.Operations{}, derived: derivation{mutating: s.mutating}, versions: coverage.Versions{}, wildcards: coverage.Set{}, exact: map[string]coverage.Set{}}
}

// coverageOf returns the coverage to which the Program adds resources.
func (h *draft) coverageOf(s *phase, p *policy.Program) *policyCoverage {
	if h.fine || p.Namespace == "" {
		return &h.policyCoverage
	}
	if h.namespaces == nil {
		h.namespaces = map[string]*policyCoverage{}
	}
	if h.namespaces[p.Namespace] == nil {
		h.namespaces[p.Namespace] = newCoverage(s)
		h.namespaces[p.Namespace].derived.oneNamespace = true
	}
	return h.namespaces[p.Namespace]
}

// addPolicy adds the resources of a Program to its webhook. A generate rule also adds the kinds that it generates.
func (b *builder) addPolicy(p *policy.Program, w *policy.Webhook) {
	to := b.phase(w.Mutating)
	if w.Selection != nil {
		if err := b.addToGroup(to, p, w); err != nil {
			b.ready[ProgramKey(p)] = err
		}
		return
	}
	if err := b.charge(p, w, w.Own != ""); err != nil {
		b.ready[ProgramKey(p)] = LeftOut{err}
		return
	}
	if _, err := b.Conditions.refused(w); err != nil {
		b.ready[ProgramKey(p)] = LeftOut{fmt.Errorf("the webhook of the policy cannot be written: a match condition: %w", err)}
		return
	}
	defaults := coverage.Operations{}
	for _, o := range w.Operations {
		defaults[o] = true
	}
	h := to.draft(p.Settings.FailurePolicy, w.Endpoint, p, w, b.Options.TimeoutSeconds)
	h.programs = append(h.programs, p)
	s := h.coverageOf(to, p)
	for _, r := range p.Rules {
		generates := r.Stage.Has(policy.StageGenerate)
		if !generates && !r.Stage.Has(w.Brings) {
			continue
		}
		s.derived.add(r)
		ops := defaults
		if generates {
			ops = coverage.All()
		}
		unknown, err := s.add(p, r, ops, b.Resources)
		if generates && (err == nil || unlisted(err)) {
			more, failed := s.addOutputs(p, r, b.Resources)
			unknown, err = unknown+more, cmp.Or(failed, err)
		}
		b.unknown += unknown
		if unknown > 0 && b.Settling && b.ready[ProgramKey(p)] == nil {
			b.ready[ProgramKey(p)] = ErrSettling
		}
		switch {
		case unlisted(err):
			s.incomplete = true
			b.ready[ProgramKey(p)] = err
		case err != nil:
			b.err = err
			return
		}
	}
	h.timeout = max(h.timeout, p.Settings.TimeoutSeconds)
}

// draft returns the webhook of the endpoint that serves the Program: the shared one of its failurePolicy, or the Program's own.
// Without a Program it returns the shared one.
func (s *phase) draft(fp policy.FailurePolicy, at *policy.Endpoint, p *policy.Program, w *policy.Webhook, timeout int32) *draft {
	mode := strings.ToLower(fp.String())
	name, path := at.Name+"-"+mode, at.Path+"/"+mode
	fine := w != nil && w.Own != ""
	if fine {
		name += "-finegrained-" + strings.ReplaceAll(p.Key(), "/", "-")
		path += "/finegrained/" + p.Key()
	}
	h := s.drafts[path]
	if h == nil {
		h = &draft{name: name, path: path, failurePolicy: fp, timeout: timeout, fine: fine, policyCoverage: *newCoverage(s)}
		if fine {
			h.namespace, h.authored = p.Namespace, w.Own == policy.OwnConditions
			h.conditions = w.Conditions
			if p.Diags.HasErrors() { // the policy was stored without our review
				h.conditions = compiling(h.conditions)
			}
		}
		if s.drafts == nil {
			s.drafts = map[string]*draft{}
		}
		s.drafts[path] = h
	}
	return h
}

// staticAnnotation marks resource configurations that cover all resources, and that we do not update after their creation.
const staticAnnotation = names.Domain + "static"

// addAll adds the webhooks for all requests, one for each failurePolicy.
func (b *builder) addAll() {
	for _, at := range b.Families.Endpoints() {
		if at.ByName {
			continue // the paths of this endpoint would have to name the policies
		}
		s, ops := b.phase(at.Mutating), coverage.All()
		if at.Mutating {
			ops = coverage.OperationsOf(policy.Create, policy.Update)
		}
		for _, fp := range []policy.FailurePolicy{policy.Fail, policy.Ignore} {
			h := s.draft(fp, &at, nil, nil, b.Options.TimeoutSeconds)
			h.wild, h.derived.unknown = true, true
			h.rules.Add(ops, coverage.Resource{Group: "*", Version: "*", Name: "*", Subresource: "*", Scope: admissionv1.AllScopes})
		}
	}
}

// errNoStatic means that no static webhook serves a policy.
var errNoStatic = errors.New("the paths of its webhooks name the policy, and the webhooks do not follow the policies (--autoUpdateWebhooks=false)")

// withoutStatic reports whether no static webhook serves the policy, although it needs webhooks.
func withoutStatic(p *policy.Program) bool {
	return len(p.Webhooks) > 0 && !slices.ContainsFunc(p.Webhooks, func(w policy.Webhook) bool { return !w.ByName && !p.OwnWebhook(true) })
}

// annotateStatic sets the annotation of static resource configurations.
func (b *builder) annotateStatic(meta *metav1.ObjectMeta) {
	if b.Options.Static {
		meta.Annotations[staticAnnotation] = "true"
	}
}

// metadata returns the metadata that all configurations share.
func (b *builder) metadata(name string) metav1.ObjectMeta {
	labels := map[string]string{}
	for k, v := range b.Settings.Webhook.Labels {
		labels[k] = v
	}
	labels[ManagedLabel] = ManagedValue
	annotations := map[string]string{}
	for k, v := range b.Settings.Webhook.Annotations {
		annotations[k] = v
	}
	meta := metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}
	if b.Owner != nil {
		meta.OwnerReferences = []metav1.OwnerReference{*b.Owner}
	}
	return meta
}
