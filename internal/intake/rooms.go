package intake

import (
	"cmp"
	"slices"
	"sync"

	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/policy"
)

// rooms count the memory that the compiled policies of each namespace keep. A policy that exceeds the rest of its namespace is not ready; the
// policies that are already compiled, those of other namespaces and cluster-wide policies do not change. The zero rooms are empty.
type rooms struct {
	mu sync.Mutex
	of map[string]*room
}

// room is the memory of the policies of one namespace.
type room struct {
	one sync.Mutex // held while one of the policies is compiled

	held    map[policy.ID]int64
	crowded map[policy.ID]bool // policies that may become ready when others leave
	freed   bool               // some policy keeps less than before
	users   int
}

// enter begins to compile a policy. The caller calls leave, whatever happens.
func (r *rooms) enter(id policy.ID) (a *compilecost.Allowance, leave func()) {
	a = &compilecost.Allowance{}
	if id.Namespace == "" {
		return a, func() {}
	}
	n, done := r.lock(id.Namespace)
	a.Namespace, a.Left = id.Namespace, compilecost.MaxNamespaceBytes
	for other, held := range n.held {
		if other != id {
			a.Left -= held
		}
	}
	return a, func() {
		n.freed = n.freed || a.Held() < n.held[id]
		n.held[id] = a.Held()
		delete(n.crowded, id)
		if a.Crowded() {
			n.crowded[id] = true
		}
		done()
	}
}

// forget drops a deleted policy.
func (r *rooms) forget(id policy.ID) {
	if id.Namespace == "" {
		return
	}
	n, done := r.lock(id.Namespace)
	n.freed = n.freed || n.held[id] > 0
	delete(n.held, id)
	delete(n.crowded, id)
	done()
}

// waiting returns the policies of a namespace that may become ready when another one was deleted or has changed, in a fixed order.
func (r *rooms) waiting(namespace string) (out []policy.ID) {
	if namespace == "" {
		return nil
	}
	n, done := r.lock(namespace)
	defer done()
	if !n.freed {
		return nil
	}
	n.freed = false
	for id := range n.crowded {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b policy.ID) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) })
	return out
}

// lock returns the locked room of a namespace. done unlocks it, and drops an empty one.
func (r *rooms) lock(namespace string) (n *room, done func()) {
	r.mu.Lock()
	if r.of == nil {
		r.of = map[string]*room{}
	}
	if n = r.of[namespace]; n == nil {
		n = &room{held: map[policy.ID]int64{}, crowded: map[policy.ID]bool{}}
		r.of[namespace] = n
	}
	n.users++
	r.mu.Unlock()
	n.one.Lock()
	return n, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if n.users--; n.users == 0 && len(n.held) == 0 {
			delete(r.of, namespace)
		}
		n.one.Unlock()
	}
}
