package intake

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// companions follows the companions of policies, such as bindings, and recompiles the policies when they change.
type companions struct {
	policies *Policies
	objects  objects
	// one is held while a policy with companions is compiled, because several informers report them.
	one sync.Mutex

	mu       sync.Mutex
	attached map[policy.ID]family.Attached // by the ID of the companion
}

func newCompanions(p *Policies) companions {
	return companions{policies: p, attached: map[policy.ID]family.Attached{}}
}

// watches returns the informers of the companions of the kinds.
func (c *companions) watches(kinds family.Kinds) (all []Watch) {
	p := c.policies
	c.objects = objects{log: p.Log, accept: p.Accept, take: c.update, drop: c.drop, seen: p.Seen}
	var seen []*family.Family
	for _, k := range kinds {
		f := p.Families.FamilyOf(k.GVK().GroupVersion().String(), k.Kind)
		if slices.Contains(seen, f) {
			continue
		}
		seen = append(seen, f)
		for _, of := range f.Companions {
			if slices.ContainsFunc(kinds, func(k *family.Kind) bool { return k.Kind == of.Policy }) {
				gvk := schema.GroupVersionKind{Group: of.Group, Version: of.Versions[0], Kind: of.Kind}
				all = append(all, Watch{Object: Object(gvk), Older: of.Versions[1:], Optional: true, Handler: c.objects.handler()})
			}
		}
	}
	return all
}

// serialize locks the compilation of policies with companions; other policies need no lock.
func (c *companions) serialize(u *unstructured.Unstructured) (done func()) {
	if f := c.policies.Families.FamilyOf(u.GetAPIVersion(), u.GetKind()); f == nil || len(f.Companions) == 0 {
		return func() {}
	}
	c.one.Lock()
	return c.one.Unlock
}

// update attaches a companion to its policy. A companion with a mistake is not attached.
func (c *companions) update(_, u *unstructured.Unstructured) error {
	attached, diags := c.policies.Families.Companion(compile.Object{Value: u.Object})
	for _, d := range diags.Errors() {
		c.policies.Log.Warn("object has a mistake", "kind", u.GetKind(), "object", idOf(u).Key(), "path", d.Path, "mistake", d.Summary)
	}
	if diags.HasErrors() {
		c.drop(u)
		return nil
	}
	return c.attach(idOf(u), &attached)
}

func (c *companions) drop(u *unstructured.Unstructured) { _ = c.attach(idOf(u), nil) }

// attach attaches a companion, or removes it if now is nil, and compiles the policies to which it belongs or belonged.
func (c *companions) attach(id policy.ID, now *family.Attached) error {
	c.one.Lock()
	defer c.one.Unlock()
	c.mu.Lock()
	old, was := c.attached[id]
	delete(c.attached, id)
	if now != nil {
		c.attached[id] = *now
	}
	c.mu.Unlock()
	var err error
	if was && (now == nil || old.Policy != now.Policy) {
		err = c.again(old.Policy)
	}
	if now != nil {
		err = cmp.Or(c.again(now.Policy), err)
	}
	return err
}

// again recompiles a policy whose companions changed.
func (c *companions) again(id policy.ID) error {
	u := c.policies.objects.get(id)
	if u == nil {
		return nil
	}
	return c.policies.compile(u)
}

// of returns the content of a policy's companions, in the order of their names.
func (c *companions) of(id policy.ID) (out []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []policy.ID
	for at, a := range c.attached {
		if a.Policy == id {
			names = append(names, at)
		}
	}
	slices.SortFunc(names, func(a, b policy.ID) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, at := range names {
		out = append(out, c.attached[at].Content)
	}
	return out
}
