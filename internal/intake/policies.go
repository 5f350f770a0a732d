package intake

import (
	"log/slog"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

// PolicyOptions are the options of Policies.
type PolicyOptions struct {
	// Families describes the kinds of policies; nil for Ephor's own.
	Families *compile.Registry
	// Kinds are the kinds to follow, with the companions of their families.
	Kinds   family.Kinds
	Catalog *catalog.Catalog
	// Accept selects the relevant policies and companions; nil for all.
	Accept func(*unstructured.Unstructured) bool
	// Compile are the options of the compiler.
	Compile family.Options
	// Server returns the version of the API server; nil for the newest.
	Server func() kubeversion.Minor
	// ForceIgnore gives every policy the failure policy Ignore.
	ForceIgnore bool
	// Seen is called after each event; nil for none.
	Seen func()
	// Sink receives the objects with their Programs; nil for none.
	Sink Sink
	Log  *slog.Logger
}

// Sink receives policies together with the objects from which they were compiled.
type Sink interface {
	// Set is called after each event for a policy. The Program is nil for a policy that cannot be used.
	Set(*unstructured.Unstructured, *policy.Program)
	Delete(*unstructured.Unstructured)
}

// Policies follows policies of some kinds, compiles new and changed ones, and puts them into the catalog.
type Policies struct {
	PolicyOptions
	objects    objects
	companions companions
	rooms      rooms

	// again is held for writing while Recompile compiles a policy, and for reading while an event does.
	again sync.RWMutex
	// compiling is held for reading while a policy is compiled and put into the catalog. auditFirst names the policies that audit first.
	compiling  sync.RWMutex
	auditFirst map[string]bool

	mu sync.Mutex
	// broken are the policies that the compiler could not handle at all.
	broken map[policy.ID]error
	// changes is called for changes of policies; nil until it is set.
	changes func(*policy.Program, observe.Change)
}

// NewPolicies returns Policies. Their Watches follow the policies.
func NewPolicies(o PolicyOptions) *Policies {
	if o.Seen == nil {
		o.Seen = func() {}
	}
	p := &Policies{PolicyOptions: o, broken: map[policy.ID]error{}}
	p.objects = objects{log: o.Log, families: o.Families, accept: o.Accept, take: p.update, same: p.same, drop: p.drop, seen: o.Seen}
	p.companions = newCompanions(p)
	return p
}

// Requests returns the kinds of policies that Ephor evaluates on requests and on existing objects.
func Requests() family.Kinds {
	return compile.Kinds.Where(func(k *family.Kind) bool { return !k.Foreign && k.Run == nil && !k.Offline })
}

// Scheduled returns the kinds of policies that run on a schedule.
func Scheduled() family.Kinds {
	return compile.Kinds.Where(func(k *family.Kind) bool { return k.Run != nil && !k.Offline })
}

// Watches returns the informers of the policies. Policies are read as unstructured data: the compiler needs every field, known or not.
func (p *Policies) Watches() (all []Watch) {
	for _, k := range p.Kinds {
		all = append(all, Watch{Object: Object(k.GVK()), Resource: definedAs(k), Older: k.Versions[1:], Optional: true, Handler: p.objects.handler()})
	}
	return append(all, p.companions.watches(p.Kinds)...)
}

// Add puts an object into force as if an informer had found it: a policy or a companion that the API server does not list. Objects of other kinds
// are ignored.
func (p *Policies) Add(u *unstructured.Unstructured) {
	gk := u.GroupVersionKind().GroupKind()
	for _, w := range p.Watches() {
		if w.Object.GetObjectKind().GroupVersionKind().GroupKind() == gk {
			w.Handler.OnAdd(u, true)
		}
	}
}

// definedAs returns the resource of a custom kind; empty for one of the API server itself.
func definedAs(k *family.Kind) string {
	if k.Foreign {
		return ""
	}
	return k.Resource
}

// update puts a new or changed policy into force.
func (p *Policies) update(old, u *unstructured.Unstructured) error {
	p.again.RLock()
	defer p.again.RUnlock()
	defer p.companions.serialize(u)()
	id := idOf(u)
	err := p.compile(u)
	p.retry(id)
	p.mu.Lock()
	delete(p.broken, id)
	if err != nil {
		p.broken[id] = err
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	if program := p.Catalog.Snapshot().Get(id); program != nil {
		change := observe.Updated
		if old == nil {
			change = observe.Created
		}
		p.report(program, change)
	}
	return nil
}

// same passes the sink an object whose compiled form did not change.
func (p *Policies) same(u *unstructured.Unstructured) {
	if p.Sink != nil {
		p.Sink.Set(u, p.Catalog.Snapshot().Get(idOf(u)))
	}
}

// compile compiles a policy with its companions and puts it into the catalog. Policies with mistakes are included: their broken rules fail,
// so that a mistake is never silent. The exception is a policy that the API server evaluates, since its verdict is unknown.
func (p *Policies) compile(u *unstructured.Unstructured) error {
	p.compiling.RLock()
	defer p.compiling.RUnlock()
	id := idOf(u)
	var program *policy.Program
	attached := p.companions.of(id)
	err := p.objects.safely(u, func() (err error) {
		var diags error
		program, diags = p.program(u, attached)
		if program == nil {
			return diags
		}
		return nil
	})
	if p.Sink != nil {
		defer p.Sink.Set(u, program)
	}
	if err != nil {
		return err
	}
	mistakes := program.Diags.Errors()
	for _, d := range mistakes {
		// It was stored before policies were reviewed, or without a review.
		p.Log.Warn("policy has a mistake", "policy", id.String(), "path", d.Path, "mistake", d.Summary)
	}
	foreign := !p.Families.Evaluates(u.GetAPIVersion(), u.GetKind())
	if foreign && len(mistakes) > 0 {
		p.Catalog.Delete(id)
		return nil
	}
	p.Catalog.Set(program)
	if foreign {
		p.Log.Info("policy reported", "policy", id.String(), "bindings", len(attached))
	} else {
		p.Log.Info("policy in force", "policy", id.String(), "rules", len(program.Rules))
	}
	return nil
}

func (p *Policies) program(u *unstructured.Unstructured, attached []any) (*policy.Program, error) {
	options := p.Compile
	var leave func()
	options.Allowance, leave = p.rooms.enter(idOf(u))
	defer leave()
	if p.Server != nil {
		options.Server = p.Server()
	}
	program, diags := p.Families.With(compile.Object{Value: u.Object}, attached, options)
	if program == nil {
		return nil, diags
	}
	if old := p.Catalog.Snapshot().Get(idOf(u)); old != nil && old.UID == program.UID && old.Generation == program.Generation {
		program.Changed = old.Changed
		if change := compile.Changes(old, program); change != nil {
			program.Changed = change
			p.Log.Warn("another version of Kubernetes changes what a policy means", "policy", idOf(u).String(), "change", change.String())
		}
	}
	if p.ForceIgnore {
		program.Settings.FailurePolicy = policy.Ignore // the Program is not shared yet
	}
	if p.auditFirst[nameOf(program.Identity())] {
		program = program.AuditFirst()
	}
	return program, nil
}

func nameOf(id policy.ID) string { return settings.AuditFirstName(id.Kind, id.Namespace, id.Name) }

// AuditFirst sets the policies that audit first (policy.Program.AuditFirst), and compiles those again for which that changes.
func (p *Policies) AuditFirst(names map[string]bool) {
	p.compiling.Lock()
	old := p.auditFirst
	p.auditFirst = names
	p.compiling.Unlock()
	if maps.Equal(old, names) {
		return
	}
	for id, u := range p.objects.list() {
		name := nameOf(id)
		if old[name] == names[name] {
			continue
		}
		p.Log.Info("policy audits first", "policy", id.String(), "auditFirst", names[name])
		if err := p.update(u, u); err != nil {
			p.Log.Error("object cannot be used", "kind", id.Kind, "object", id.Key(), "error", err)
		}
	}
	p.Seen()
}

func (p *Policies) drop(u *unstructured.Unstructured) {
	p.again.RLock()
	defer p.again.RUnlock()
	defer p.companions.serialize(u)()
	id := idOf(u)
	if program := p.Catalog.Snapshot().Get(id); program != nil {
		p.report(program, observe.Deleted)
	}
	p.mu.Lock()
	delete(p.broken, id)
	p.mu.Unlock()
	p.Catalog.Delete(id)
	if p.Sink != nil {
		p.Sink.Delete(u)
	}
	p.rooms.forget(id)
	p.retry(id)
	p.Log.Info("policy gone", "policy", id.String())
}

// retry compiles the other policies of the namespace that had no room, after one was deleted or has changed.
func (p *Policies) retry(changed policy.ID) {
	for _, id := range p.rooms.waiting(changed.Namespace) {
		if u := p.objects.get(id); u != nil && id != changed {
			_ = p.compile(u)
		}
	}
}

// Recompile compiles all policies again, for another version of the API server.
func (p *Policies) Recompile() {
	for id, u := range p.objects.list() {
		func() {
			p.again.Lock()
			defer p.again.Unlock()
			defer p.companions.serialize(u)()
			if now := p.objects.get(id); now != nil { // it may have been deleted or changed in the meantime
				_ = p.compile(now)
			}
		}()
	}
	p.Seen()
}

// Observe reports each later change of a policy to f.
func (p *Policies) Observe(f func(*policy.Program, observe.Change)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes = f
}

func (p *Policies) report(program *policy.Program, c observe.Change) {
	p.mu.Lock()
	f := p.changes
	p.mu.Unlock()
	if f != nil {
		f(program, c)
	}
}

// All returns the last known state of the policies, and why some cannot be used. The objects are shared and read-only.
func (p *Policies) All() (objects map[policy.ID]*unstructured.Unstructured, broken map[policy.ID]error) {
	objects = p.objects.list()
	p.mu.Lock()
	defer p.mu.Unlock()
	return objects, maps.Clone(p.broken)
}
