package origin

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// Max is the maximum number of entries. An entry takes about 1 KB of memory.
const Max = 50_000

// Entry is one object that a rule generated.
type Entry struct {
	mark.Claim
	// Object is the object, with its UID.
	Object mark.Object `json:"object"`
	// From is the source of a copy; empty for other objects. Claim.Source is its UID.
	From mark.Object `json:"from,omitzero"`
	// Version is the resourceVersion of the object's last write, and FromVersion that of the copied source. They are empty if unknown.
	Version     string `json:"version,omitempty"`
	FromVersion string `json:"fromVersion,omitempty"`
	// Plan is a digest of the written content if the API server has added to it; empty otherwise.
	Plan string `json:"plan,omitempty"`
}

// Rule names a rule of a policy.
type Rule struct {
	ID   policy.ID
	Name string
}

// EntryFor returns the entry of an object that a rule generates for a trigger, without the object.
func EntryFor(p *policy.Program, r *policy.Rule, trigger kyvernov2.ResourceSpec, g *policy.Generated) Entry {
	e := Entry{Claim: ClaimFor(p, r, trigger, g.Source), FromVersion: g.SourceVersion}
	if from := g.Source; from != nil {
		e.From = mark.Object{APIVersion: from.APIVersion, Kind: from.Kind, Namespace: from.Namespace, Name: from.Name, UID: from.UID}
	}
	return e
}

// RuleOf returns the name of a rule in the record.
func RuleOf(p *policy.Program, r *policy.Rule) Rule { return Rule{p.Identity(), r.Name} }

// Rule returns the rule that generated the object.
func (e *Entry) Rule() Rule { return Rule{updaterequest.IDOf(e.Claim), e.Claim.Rule} }

// Options are the dependencies of a Record.
type Options struct {
	// Client reads without a cache; nil if nothing is stored.
	Client client.Client
	// Namespace is the namespace of the installation.
	Namespace string
	// Changed is called after changes and must not block; nil for none.
	Changed func()
	Log     *slog.Logger
}

// Record is the record of generated objects. Its methods are safe for concurrent use.
type Record struct {
	o Options

	mu        sync.Mutex
	entries   map[string]*Entry // by the UID of the object
	byRule    index[Rule]
	byTrigger index[trigger]
	bySource  index[string]
	kinds     kinds // the kinds of the objects
	sources   kinds // the kinds of the sources
	full      bool
	shards    [Shards]shard
	since     time.Time // of the first change that is not stored; zero for none

	rules rules
}

type trigger struct {
	Rule
	uid string
}

// index finds the UIDs of objects that share a property.
type index[K comparable] map[K]map[string]struct{}

func (x index[K]) add(k K, uid string) {
	if x[k] == nil {
		x[k] = map[string]struct{}{}
	}
	x[k][uid] = struct{}{}
}

func (x index[K]) remove(k K, uid string) {
	delete(x[k], uid)
	if len(x[k]) == 0 {
		delete(x, k)
	}
}

// kinds counts the objects of each rule by kind.
type kinds map[Rule]map[schema.GroupVersionKind]int

func (k kinds) add(r Rule, o mark.Object, n int) {
	if o.Kind == "" {
		return
	}
	gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	if k[r] == nil {
		k[r] = map[schema.GroupVersionKind]int{}
	}
	if k[r][gvk] += n; k[r][gvk] == 0 {
		delete(k[r], gvk)
	}
	if len(k[r]) == 0 {
		delete(k, r)
	}
}

func (k kinds) of(r Rule) []schema.GroupVersionKind {
	out := make([]schema.GroupVersionKind, 0, len(k[r]))
	for gvk := range k[r] {
		out = append(out, gvk)
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int { return compareText(a.String(), b.String()) })
	return out
}

// New returns an empty Record; Load fills it, Reconcile stores it.
func New(o Options) *Record {
	l := &Record{
		o: o, entries: map[string]*Entry{}, byRule: index[Rule]{}, byTrigger: index[trigger]{}, bySource: index[string]{},
		kinds: kinds{}, sources: kinds{},
	}
	for i := range l.shards {
		l.shards[i].pending = map[string]*Entry{}
	}
	return l
}

// Add records an object that was generated, or that is generated according to its mark. It does not record objects without a UID.
func (l *Record) Add(e Entry) {
	uid := e.Object.UID
	if uid == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.entries[uid]
	switch {
	case have != nil && *have == e:
		return
	case have != nil && have.Claim == e.Claim && e.Version == "":
		return // the mark holds less information than the entry
	case have == nil && len(l.entries) >= Max:
		if !l.full {
			l.o.Log.Warn("the record of generated objects is full: further objects are identified by their marks only", "objects", Max)
		}
		l.full = true
		return
	}
	l.put(&e)
	l.shards[shardOf(uid)].pending[uid] = &e
	l.changed()
}

// Drop removes an object that was deleted, or that no longer belongs to a rule.
func (l *Record) Drop(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries[uid] == nil {
		return
	}
	l.remove(uid)
	l.shards[shardOf(uid)].pending[uid] = nil
	l.full = false
	l.changed()
}

// Forget removes all objects of a rule.
func (l *Record) Forget(r Rule) {
	for _, e := range l.OfRule(r) {
		l.Drop(e.Object.UID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rules.listed, r)
}

// changed notes the time of the first change that is not stored.
func (l *Record) changed() {
	if l.since.IsZero() {
		l.since = time.Now()
	}
	if l.o.Changed != nil {
		l.o.Changed()
	}
}

// put adds an entry. It replaces an existing entry for the same object.
func (l *Record) put(e *Entry) {
	uid, rule := e.Object.UID, e.Rule()
	l.remove(uid)
	l.entries[uid] = e
	l.byRule.add(rule, uid)
	l.byTrigger.add(trigger{rule, e.Trigger.UID}, uid)
	if e.Source != "" {
		l.bySource.add(e.Source, uid)
	}
	l.kinds.add(rule, e.Object, 1)
	l.sources.add(rule, e.From, 1)
}

func (l *Record) remove(uid string) {
	e := l.entries[uid]
	if e == nil {
		return
	}
	rule := e.Rule()
	delete(l.entries, uid)
	l.byRule.remove(rule, uid)
	l.byTrigger.remove(trigger{rule, e.Trigger.UID}, uid)
	l.bySource.remove(e.Source, uid)
	l.kinds.add(rule, e.Object, -1)
	l.sources.add(rule, e.From, -1)
}

// Len returns the number of entries.
func (l *Record) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Object returns the entry of an object.
func (l *Record) Object(uid string) (e Entry, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have := l.entries[uid]; have != nil {
		return *have, true
	}
	return e, false
}

// OfRule returns the entries of a rule, sorted.
func (l *Record) OfRule(r Rule) []Entry {
	return l.some(func() map[string]struct{} { return l.byRule[r] })
}

// OfTrigger returns the entries of a rule for a trigger.
func (l *Record) OfTrigger(r Rule, uid string) []Entry {
	return l.some(func() map[string]struct{} { return l.byTrigger[trigger{r, uid}] })
}

// OfSource returns the entries for copies of an object.
func (l *Record) OfSource(uid string) []Entry {
	return l.some(func() map[string]struct{} { return l.bySource[uid] })
}

func (l *Record) some(of func() map[string]struct{}) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	uids := of()
	out := make([]Entry, 0, len(uids))
	for uid := range uids {
		out = append(out, *l.entries[uid])
	}
	slices.SortFunc(out, func(a, b Entry) int { return compare(a.Object, b.Object) })
	return out
}

// Rules returns the rules that have entries.
func (l *Record) Rules() []Rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Rule, 0, len(l.byRule))
	for r := range l.byRule {
		out = append(out, r)
	}
	return out
}

// Kinds returns the kinds of the objects of a rule.
func (l *Record) Kinds(r Rule) []schema.GroupVersionKind {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kinds.of(r)
}

// Sources returns the kinds of the sources that a rule copies.
func (l *Record) Sources(r Rule) []schema.GroupVersionKind {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sources.of(r)
}
