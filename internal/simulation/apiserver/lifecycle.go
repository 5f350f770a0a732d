package apiserver

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// erase deletes an object, or marks it as deleted if it has finalizers; it then returns it.
func (s *Server) erase(client string, t *table, key string) *object {
	before := t.live[key]
	meta := metaOf(before.data)
	held, _ := meta["finalizers"].([]any)
	gr := t.resource.GroupResource()
	if len(held) == 0 && gr != namespaces {
		s.remove(client, t, key)
		return nil
	}
	if meta["deletionTimestamp"] != nil {
		return before
	}
	o := copyOf(before.data)
	m := metaOf(o)
	m["deletionTimestamp"], m["deletionGracePeriodSeconds"] = now(), int64(0)
	if g, ok := m["generation"].(int64); ok {
		m["generation"] = g + 1
	}
	if gr == namespaces {
		o["status"] = map[string]any{"phase": "Terminating"}
		_, name := splitKey(key)
		s.after(func() { s.terminate(name) })
	}
	return s.put(client, t, key, o)
}

// remove removes an object. What belongs to it is removed later.
func (s *Server) remove(client string, t *table, key string) {
	before := t.live[key]
	if before == nil {
		return
	}
	s.put(client, t, key, nil)
	uid := textOf(metaOf(before.data), "uid")
	s.after(func() { s.collect(uid) })
	if t.resource.GroupResource() == definitions {
		spec, _ := before.data["spec"].(map[string]any)
		names, _ := spec["names"].(map[string]any)
		s.undefine(schema.GroupResource{Group: textOf(spec, "group"), Resource: textOf(names, "plural")})
	}
}

// owners returns the owner references of an object.
func owners(o map[string]any) (out []map[string]any) {
	list, _ := metaOf(o)["ownerReferences"].([]any)
	for _, r := range list {
		if m, ok := r.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// collect deletes the objects that belonged to a deleted object and have no other owner.
func (s *Server) collect(uid string) {
	for _, t := range s.tables {
		for _, key := range slices.Sorted(maps.Keys(t.live)) {
			o := t.live[key]
			if o == nil {
				continue
			}
			refs := owners(o.data)
			ours := slices.ContainsFunc(refs, func(r map[string]any) bool { return textOf(r, "uid") == uid })
			if ours && !slices.ContainsFunc(refs, func(r map[string]any) bool { return s.exists(textOf(r, "uid")) }) {
				s.erase("garbage-collector", t, key)
			}
		}
	}
}

func (s *Server) exists(uid string) bool {
	for _, t := range s.tables {
		for _, o := range t.live {
			if textOf(metaOf(o.data), "uid") == uid {
				return true
			}
		}
	}
	return false
}

// orphan removes references to an owner.
func (s *Server) orphan(uid string) {
	for _, t := range s.tables {
		for _, key := range slices.Sorted(maps.Keys(t.live)) {
			refs := owners(t.live[key].data)
			if !slices.ContainsFunc(refs, func(r map[string]any) bool { return textOf(r, "uid") == uid }) {
				continue
			}
			o := copyOf(t.live[key].data)
			var kept []any
			for _, r := range owners(o) {
				if textOf(r, "uid") != uid {
					kept = append(kept, r)
				}
			}
			if metaOf(o)["ownerReferences"] = kept; len(kept) == 0 {
				delete(metaOf(o), "ownerReferences")
			}
			s.put("garbage-collector", t, key, o)
		}
	}
}

// terminate deletes the content of a namespace, and then the namespace. It tries again while objects have finalizers.
func (s *Server) terminate(name string) {
	all := s.tables[namespaces]
	if all == nil || all.live[keyOf("", name)] == nil {
		return
	}
	left := 0
	for _, gr := range slices.SortedFunc(maps.Keys(s.tables), func(a, b schema.GroupResource) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	}) {
		t := s.tables[gr]
		if !t.resource.Namespaced {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(t.live)) {
			if ns, _ := splitKey(key); ns == name && s.erase("namespace-controller", t, key) != nil {
				left++
			}
		}
	}
	if left > 0 {
		s.after(func() { s.terminate(name) })
		return
	}
	s.remove("namespace-controller", all, keyOf("", name))
}

// react does what the API server does when certain kinds are written: it serves the kind of a definition.
func (s *Server) react(t *table, o map[string]any) {
	if t.resource.GroupResource() != definitions || metaOf(o)["deletionTimestamp"] != nil {
		return
	}
	r, ok := ResourceOf(o)
	if !ok {
		return
	}
	s.define(r)
	if status, _ := o["status"].(map[string]any); status["conditions"] != nil {
		return
	}
	o = copyOf(o)
	o["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "lastTransitionTime": now()},
		map[string]any{"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "lastTransitionTime": now()},
	}}
	s.put("definitions", t, keyOf("", textOf(metaOf(o), "name")), o)
}

// ResourceOf returns the kind that a CustomResourceDefinition defines.
func ResourceOf(definition map[string]any) (Resource, bool) {
	spec, _ := definition["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	r := Resource{
		Group: textOf(spec, "group"), Kind: textOf(names, "kind"), Plural: textOf(names, "plural"), Namespaced: textOf(spec, "scope") == "Namespaced", Custom: true,
	}
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		v, _ := v.(map[string]any)
		if served, _ := v["served"].(bool); !served {
			continue
		}
		if sub, _ := v["subresources"].(map[string]any); sub["status"] != nil {
			r.Status = true
		}
		if stored, _ := v["storage"].(bool); stored {
			r.Versions = append([]string{textOf(v, "name")}, r.Versions...)
		} else {
			r.Versions = append(r.Versions, textOf(v, "name"))
		}
	}
	return r, r.Plural != "" && len(r.Versions) > 0
}
