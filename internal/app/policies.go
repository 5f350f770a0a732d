package app

import (
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/observe"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/webhookconf"
)

// policies follows the policy objects: it compiles what is new or changed and puts it into the catalog.
type policies struct {
	catalog     *catalog.Catalog
	forceIgnore bool
	log         *slog.Logger
	// changed is fired after every event, also those that leave the Program as it is, such as a status that another client
	// wrote.
	changed trigger

	mu sync.Mutex
	// objects are the policies as they were last seen, by webhookconf.ProgramKey. They are shared with the cache.
	objects map[string]*unstructured.Unstructured
	// changes is called for changes of policies; nil until it is set.
	changes func(*policy.Program, observe.Change)
	// broken are the policies that the compiler could not cope with at all.
	broken map[string]error
}

func newPolicies(c *catalog.Catalog, forceIgnore bool, log *slog.Logger) *policies {
	return &policies{
		catalog: c, forceIgnore: forceIgnore, log: log, changed: newTrigger(),
		objects: map[string]*unstructured.Unstructured{}, broken: map[string]error{},
	}
}

// handler is for the informers of policies.
func (p *policies) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.set(obj) },
		UpdateFunc: func(_, obj any) { p.set(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			p.remove(obj)
		},
	}
}

func keyOf(u *unstructured.Unstructured) string {
	return webhookconf.ProgramKey(&policy.Program{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()})
}

func (p *policies) set(obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	key := keyOf(u)
	p.mu.Lock()
	old := p.objects[key]
	p.objects[key] = u
	p.mu.Unlock()
	defer p.changed.fire()
	if old != nil && sameContent(old, u) {
		return
	}
	program, err := p.compile(u)
	p.mu.Lock()
	delete(p.broken, key)
	if err != nil {
		p.broken[key] = err
	}
	p.mu.Unlock()
	if err != nil {
		p.log.Error("policy cannot be used", "policy", key, "error", err)
		return
	}
	for _, d := range program.Diags.Errors() {
		// It was stored before we reviewed policies, or past us; its broken rules give errors, never silence.
		p.log.Warn("policy has a mistake", "policy", key, "path", d.Path, "mistake", d.Summary)
	}
	p.catalog.Set(program)
	if old == nil {
		p.tell(program, observe.Created)
	} else {
		p.tell(program, observe.Updated)
	}
	p.log.Info("policy in force", "policy", key, "rules", len(program.Rules))
}

// compile must not take the process down, whatever the policy says.
func (p *policies) compile(u *unstructured.Unstructured) (program *policy.Program, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the compiler panicked: %v", v)
			p.log.Error("the compiler panicked", "policy", keyOf(u), "panic", v, "stack", string(debug.Stack()))
		}
	}()
	program, diags := compile.One(compile.Object{Value: u.Object})
	if program == nil {
		return nil, diags
	}
	if p.forceIgnore {
		program.Settings.FailurePolicy = policy.Ignore // the Program is not shared yet
	}
	return program, nil
}

func (p *policies) remove(obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	key := keyOf(u)
	if program := p.catalog.Snapshot().Get(catalog.ID{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}); program != nil {
		p.tell(program, observe.Deleted)
	}
	p.mu.Lock()
	delete(p.objects, key)
	delete(p.broken, key)
	p.mu.Unlock()
	p.catalog.Delete(catalog.ID{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()})
	p.log.Info("policy gone", "policy", key)
	p.changed.fire()
}

// observe lets f know of each change of a policy from now on.
func (p *policies) observe(f func(*policy.Program, observe.Change)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes = f
}

func (p *policies) tell(program *policy.Program, c observe.Change) {
	p.mu.Lock()
	f := p.changes
	p.mu.Unlock()
	if f != nil {
		f(program, c)
	}
}

// all returns the policies as they were last seen, and why some cannot be used.
func (p *policies) all() (objects map[string]*unstructured.Unstructured, broken map[string]error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.objects), maps.Clone(p.broken)
}

// sameContent reports whether the two compile to the same: a status does not count.
func sameContent(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}
