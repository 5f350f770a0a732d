package observe

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/secretpath"
)

// Options configure Metrics.
type Options struct {
	// Version is the version of the program, for kyverno_info and OTLP.
	Version string
	// Namespace is the namespace of the process.
	Namespace string
	// Families are the families of the policies; nil for those of Ephor.
	Families *compile.Registry
	// MaxSeries is the maximum number of series of each instrument; 0 for DefaultMaxSeries.
	MaxSeries int
}

// Metrics holds the metrics of a process. Its methods are safe for concurrent use, and do nothing on a nil *Metrics.
type Metrics struct {
	options  Options
	families map[string]*family
	ordered  []*family // by exposed name
	config   atomic.Pointer[Config]
	results  resultCache

	reviews, reviewDuration                              *family
	http, httpDuration, serverDuration, serverIn         *family
	serverOut, changes, queries, reconcile, requeue      *family
	drop, deprecated, eventsDropped, auditsDropped       *family
	decisions, decisionsDropped                          *family
	breaker, breakerDrops, updateFailed, updateRequests  *family
	reportsUnsent, reportsUnproved, paths                *family
	registryRequests, registryDuration, imageAnswers     *family
	updateWaiting, certificate                           *family
	ttlInfo, ttlDeleted, ttlErrors, overflow, info, rule *family
	cleanupStopped, ttlStopped, exceeded                 *family
	exceptionErrors                                      *family
	kinds                                                map[string]resultFamilies

	mu           sync.Mutex   // guards the configuration
	waiting      atomic.Int64 // UpdateRequests
	rulesWaiting leading[int]
	controllers  sync.Map // the registered names
	policies     atomic.Pointer[func() []PolicyState]
	exceptions   atomic.Pointer[func() map[string]int]
	certificates atomic.Pointer[func(func(secret string, end time.Time))]
	ttlWatched   atomic.Pointer[func() []schema.GroupVersionResource]
	unlistable   atomic.Pointer[func() []string]
	trustRoots   atomic.Pointer[func(report func(source string, confined bool, updated time.Time, failures int))]
	members      sync.Map // controller → func() int
	leftOut      leading[leftOut]
}

// PolicyState is a policy and its condition, for kyverno_policy_rule_info_total.
type PolicyState struct {
	Program *policy.Program
	Ready   bool
}

// NewMetrics returns Metrics with the configuration for a missing ConfigMap.
func NewMetrics(o Options) *Metrics {
	if o.MaxSeries <= 0 {
		o.MaxSeries = DefaultMaxSeries
	}
	m := &Metrics{options: o, families: make(map[string]*family, len(declared))}
	for _, i := range declaredFor(o.Families) {
		f := newFamily(&i)
		m.families[i.Name] = f
		m.ordered = append(m.ordered, f)
		f.overflow = func() { m.overflow.with(f.Exposed()).add(1) }
	}
	get := func(name string) *family { return m.families[name] }
	m.info, m.rule, m.changes = get(nameInfo), get(nameRuleInfo), get(nameChanges)
	m.reviews, m.reviewDuration = get(nameReviews), get(nameReviewDuration)
	m.http, m.httpDuration = get(nameHTTP), get(nameHTTPDuration)
	m.serverDuration, m.serverIn, m.serverOut = get(nameServerDuration), get(nameServerIn), get(nameServerOut)
	m.queries, m.reconcile, m.requeue, m.drop = get(nameQueries), get(nameReconcile), get(nameRequeue), get(nameDrop)
	m.decisions, m.decisionsDropped = get(nameDecisions), get(nameDecisionsDropped)
	m.deprecated, m.eventsDropped, m.auditsDropped = get(nameDeprecated), get(nameEventsDropped), get(nameAuditsDropped)
	m.breaker, m.breakerDrops = get(nameBreaker), get(nameBreakerDrops)
	m.reportsUnsent, m.reportsUnproved, m.paths = get(nameReportsUnsent), get(nameReportsUnproved), get(namePaths)
	m.updateRequests, m.updateFailed, m.updateWaiting = get(nameUpdateRequests), get(nameUpdateRequestsFailed), get(nameUpdateRequestsWaiting)
	m.registryRequests, m.registryDuration, m.imageAnswers = get(nameRegistryRequests), get(nameRegistryDuration), get(nameImageAnswers)
	m.certificate, m.overflow = get(nameCertificate), get(nameOverflow)
	m.ttlInfo, m.ttlDeleted, m.ttlErrors = get(nameTTLInfo), get(nameTTLDeleted), get(nameTTLErrors)
	m.cleanupStopped, m.ttlStopped = get(nameCleanupStopped), get(nameTTLStopped)
	m.exceeded, m.exceptionErrors = get(nameBudgetExceeded), get(nameExceptionErrors)
	m.kinds = resultKinds(o.Families, get)
	m.info.collect = func(set func(float64, ...string)) { set(1, o.Version) }
	m.rule.collect, m.certificate.collect, m.ttlInfo.collect = m.collectRules, m.collectCertificates, m.collectTTL
	get(nameReportsUnlistable).collect = m.collectUnlistable
	get(nameRingMembers).collect = m.collectMembers
	get(nameLeftOut).collect = m.collectLeftOut
	get(nameTrustFetched).collect, get(nameTrustFailures).collect = m.collectTrust, m.collectTrustFailures
	get(nameExceptions).collect = m.collectExceptions
	m.updateWaiting.collect = func(set func(float64, ...string)) {
		rules, _ := m.rulesWaiting.load()
		set(float64(m.waiting.Load() + int64(rules)))
	}
	m.Configure(Config{})
	return m
}

// Configure applies the metrics ConfigMap. It resets the instruments whose setup changes; the others continue.
func (m *Metrics) Configure(c Config) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config.Store(&c)
	for _, f := range m.families {
		f.configure(c.setup(f.Instrument, m.options.MaxSeries))
	}
	m.begin()
}

// begin resets the state. Series on which users alert exist before their first event, so that increase() includes it.
func (m *Metrics) begin() {
	m.results.clear()
	for _, v := range []secretpath.Verdict{secretpath.Standing, secretpath.Missing, secretpath.Unknown, secretpath.Unserved} {
		m.paths.with(string(v)).add(0)
	}
	for _, f := range []*family{m.eventsDropped, m.auditsDropped, m.decisionsDropped, m.updateFailed} {
		f.with().add(0)
	}
	for _, f := range m.families {
		if slices.Contains(f.open, true) {
			m.overflow.with(f.Exposed()).add(0)
		}
	}
	m.controllers.Range(func(name, _ any) bool {
		m.announce(name.(string))
		return true
	})
}

// Run resets all series at the refresh interval of the configuration, until ctx is done.
func (m *Metrics) Run(ctx context.Context) {
	if m == nil {
		return
	}
	const look = 10 * time.Second
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	var age time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		age += look
		if every := m.config.Load().Refresh; every > 0 && age >= every {
			age = 0
			m.forget()
		}
	}
}

// forget resets all counters. Gauges keep their values.
func (m *Metrics) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.families {
		if f.Kind != Gauge {
			f.reset()
		}
	}
	m.begin()
}

// counts reports whether a namespace is counted.
func (m *Metrics) counts(namespace string) bool { return m.config.Load().counts(namespace) }

// Evaluated counts the results of an evaluation and the time that each took.
func (m *Metrics) Evaluated(out *policy.Outcome) {
	if m == nil || len(out.Results) == 0 {
		return
	}
	m.evaluated(out)
}

const validatingWebhook = "ValidatingWebhookConfiguration"

// Reviewed counts an admission review that was answered. webhook is "ValidatingWebhookConfiguration" or
// "MutatingWebhookConfiguration".
func (m *Metrics) Reviewed(req *policy.Request, webhook string, allowed bool, took time.Duration) {
	if m == nil || !m.counts(req.Namespace) {
		return
	}
	kind, op, ok := req.GVK.Kind, operation(req.Operation), strconv.FormatBool(allowed)
	m.reviews.with(kind, req.Namespace, op, ok, webhook).add(1)
	m.reviewDuration.with(kind, req.Namespace, op, ok, webhook).observe(took.Seconds())
	if webhook != validatingWebhook {
		return
	}
	gvk := req.RequestGVK
	if k := m.options.Families.Kinds().Of(gvk.Group, gvk.Kind); k != nil && k.Superseded {
		m.deprecated.with(gvk.Group, gvk.Version, gvk.Kind, "").add(1)
	}
}

// Change is the type of a change of a policy.
type Change string

// The changes.
const (
	Created Change = "created"
	Updated Change = "updated"
	Deleted Change = "deleted"
)

// Forget clears the cached rules for which results were counted. Call it when the policies change, so that deleted rules can be freed.
func (m *Metrics) Forget() {
	if m != nil {
		m.results.clear()
	}
}

// PolicyChanged counts a change of a policy.
func (m *Metrics) PolicyChanged(p *policy.Program, c Change) {
	if m == nil {
		return
	}
	if ns := policyNamespace(p); m.counts(ns) {
		m.changes.with(mode(p), policyType(p), strconv.FormatBool(p.Settings.Background), ns, p.Name, string(c)).add(1)
	}
}

// Policies sets the function that lists the enforced policies, for kyverno_policy_rule_info_total.
func (m *Metrics) Policies(list func() []PolicyState) {
	if m != nil {
		m.policies.Store(&list)
	}
}

func (m *Metrics) collectRules(set func(float64, ...string)) {
	list := m.policies.Load()
	if list == nil {
		return
	}
	for _, s := range (*list)() {
		p := s.Program
		ns := policyNamespace(p)
		if !m.counts(ns) {
			continue
		}
		for _, r := range p.Rules {
			set(1, mode(p), policyType(p), strconv.FormatBool(p.Settings.Background), ns, p.Name, r.Name, ruleType(r), strconv.FormatBool(s.Ready))
		}
	}
}

// Controller registers a controller, so that its rounds and failures are counted from zero.
func (m *Metrics) Controller(name string) {
	if m != nil {
		m.controllers.Store(name, nil)
		m.announce(name)
	}
}

func (m *Metrics) announce(controller string) {
	m.reconcile.with(controller).add(0)
	m.requeue.with(controller, "1").add(0)
	m.drop.with(controller).add(0)
}

// Reconciled counts a round of a controller.
func (m *Metrics) Reconciled(controller string) {
	if m != nil {
		m.reconcile.with(controller).add(1)
	}
}

// Requeued counts a failed round that will be retried. failures is the number of consecutive failures.
func (m *Metrics) Requeued(controller string, failures int) {
	if m != nil {
		m.requeue.with(controller, strconv.Itoa(min(failures, 10))).add(1)
	}
}

// Dropped counts work that a controller will not retry.
func (m *Metrics) Dropped(controller string) {
	if m != nil {
		m.drop.with(controller).add(1)
	}
}

// EventDropped counts an event that was not written.
func (m *Metrics) EventDropped() {
	if m != nil {
		m.eventsDropped.with().add(1)
	}
}

// Path counts a request whose path does not prove that the API server sent it.
func (m *Metrics) Path(v secretpath.Verdict) {
	if m != nil {
		m.paths.with(string(v)).add(1)
	}
}

// AuditDropped counts a request whose audit rules were not evaluated.
func (m *Metrics) AuditDropped() {
	if m != nil {
		m.auditsDropped.with().add(1)
	}
}

// ExceptionNotEvaluated counts an exception that could not be evaluated.
func (m *Metrics) ExceptionNotEvaluated(e *policy.Exception) {
	if m != nil && m.counts(e.Namespace) {
		m.exceptionErrors.with(e.Namespace, e.Name).add(1)
	}
}

// DecisionKept counts a record of a review.
func (m *Metrics) DecisionKept(verdict string) {
	if m != nil {
		m.decisions.with(verdict).add(1)
	}
}

// DecisionsDropped counts records that were lost.
func (m *Metrics) DecisionsDropped(n int) {
	if m != nil {
		m.decisionsDropped.with().add(uint64(n))
	}
}

// Certificates sets the function that lists the certificates in use, each with its Secret and expiry.
func (m *Metrics) Certificates(each func(report func(secret string, end time.Time))) {
	if m != nil {
		m.certificates.Store(&each)
	}
}

func (m *Metrics) collectCertificates(set func(float64, ...string)) {
	if each := m.certificates.Load(); each != nil {
		(*each)(func(secret string, end time.Time) { set(float64(end.Unix()), secret) })
	}
}

// Exceptions sets the function that counts the exceptions in force by their state.
func (m *Metrics) Exceptions(count func() map[string]int) {
	if m != nil {
		m.exceptions.Store(&count)
	}
}

func (m *Metrics) collectExceptions(set func(float64, ...string)) {
	if count := m.exceptions.Load(); count != nil {
		for state, n := range (*count)() {
			set(float64(n), state)
		}
	}
}

// UpdateRequests sets the number of UpdateRequests in the process's namespace.
func (m *Metrics) UpdateRequests(n int) {
	if m != nil {
		m.updateRequests.with(m.options.Namespace).set(float64(n))
	}
}

// UpdateRequestFailed counts an UpdateRequest that could not be written before the request was answered. waiting is the number of
// UpdateRequests that wait for a retry.
func (m *Metrics) UpdateRequestFailed(waiting int) {
	if m != nil {
		m.updateFailed.with().add(1)
		m.waiting.Store(int64(waiting))
	}
}

// UpdateRequestsWaiting sets the number of UpdateRequests that wait to be written, and RulesWaiting that of rules whose work waits for
// updateRequestThreshold. A process with both controllers has one metric for both.
func (m *Metrics) UpdateRequestsWaiting(n int) {
	if m != nil {
		m.waiting.Store(int64(n))
	}
}

// RulesWaiting is described at UpdateRequestsWaiting. The number counts until ctx is done, when this replica no longer leads.
func (m *Metrics) RulesWaiting(ctx context.Context, n int) {
	if m != nil {
		m.rulesWaiting.set(ctx, n)
	}
}

// Breaker counts a report that a circuit breaker let through or dropped.
func (m *Metrics) Breaker(circuit string, dropped bool) {
	if m == nil {
		return
	}
	m.breaker.with(circuit).add(1)
	if dropped {
		m.breakerDrops.with(circuit).add(1)
	}
}

// ReportUnsent counts a resource whose results were not sent to the reports controller, by reason.
func (m *Metrics) ReportUnsent(why string) {
	if m != nil {
		m.reportsUnsent.with(why).add(1)
	}
}

// ReportUnproved counts an intermediate report without a valid seal, by reason.
func (m *Metrics) ReportUnproved(why string) {
	if m != nil {
		m.reportsUnproved.with(why).add(1)
	}
}

// RegistryAnswer counts the response of a registry, with its duration. Status 0 means that there was no response.
func (m *Metrics) RegistryAnswer(host string, status int, took time.Duration) {
	if m == nil {
		return
	}
	text := "none"
	if status > 0 {
		text = strconv.Itoa(status)
	}
	m.registryRequests.with(host, text).add(1)
	m.registryDuration.with(host).observe(took.Seconds())
}

// SignatureAnswer counts an answer about signatures, and whether it came from the cache.
func (m *Metrics) SignatureAnswer(remembered bool) {
	if m == nil {
		return
	}
	source := "verification"
	if remembered {
		source = "memory"
	}
	m.imageAnswers.with(source).add(1)
}
