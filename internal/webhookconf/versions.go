package webhookconf

import (
	"maps"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

// The API server converts a request to a version that a webhook's rules name only if no rule of that webhook names the request's own
// version. A namespaced policy that names a further version, or all versions, would therefore change which version a cluster-wide policy
// receives, in all namespaces. This file keeps such rules out of the shared webhooks: a kind without a version is covered in the versions
// that cluster-wide policies name, and wildcards and explicit versions get separate webhooks.

// siblings holds, for each resource that cluster-wide policies name, the resources that the API server converts to it.
type siblings map[place][]place

// add records the siblings of the places of a selector.
func (s siblings) add(t policy.Target, places []place, known discovery.Resources) error {
	if t.Version == "*" && (t.Group == "*" || t.ByResource()) || t.Resource == "*" {
		return nil // the selector names all versions, or no resource
	}
	found, err := known.Find(policy.Target{Group: "*", Version: "*", Kind: t.Kind, Resource: t.Resource, Subresource: t.Subresource})
	if err != nil {
		return err
	}
	for _, p := range places {
		for _, r := range found {
			if o := placeOf(r); o.converts(p) {
				s[p] = append(s[p], o)
			}
		}
	}
	return nil
}

// converts reports whether the API server can send a request for o as p, another version of the same resource. Events are the only
// resource that is served in two groups.
func (o place) converts(p place) bool {
	if o == p || o.resource != p.resource || o.sub != p.sub {
		return false
	}
	if o.resource == "events" {
		return eventGroup(o.group) && eventGroup(p.group)
	}
	return o.group == p.group || p.group == "*"
}

func eventGroup(group string) bool { return group == "" || group == "events.k8s.io" }

// foreign returns the versions that cluster-wide policies do not name, with the operations for which they name another version.
func (h *hook) foreign() ruleSet {
	out := ruleSet{}
	for p, others := range h.siblings {
		for _, o := range others {
			own := h.rules.asks(o)
			for op := range h.rules[p] {
				if !own[op] {
					out.put(o, operations{op: true})
				}
			}
		}
	}
	return out
}

// setApart removes rules of namespaced policies from the shared rules if they would change the version that cluster-wide policies receive.
// Wildcards move to share.apart, and explicit versions to share.exact; other selectors use the versions that cluster-wide policies name.
func (h *hook) setApart() {
	foreign := h.foreign()
	for _, s := range h.spaces {
		exact := map[string]ruleSet{}
		for f, ops := range foreign {
			for p, have := range s.rules {
				if !p.covers(f) || !meet(have, ops) {
					continue
				}
				if p.resource == "*" {
					s.apart.put(p, have)
					delete(s.rules, p)
					continue
				}
				for op := range ops {
					delete(have, op)
				}
			}
			for key, rules := range s.exact {
				for op := range ops {
					if rules[f][op] {
						if exact[key] == nil {
							exact[key] = ruleSet{}
						}
						exact[key].put(f, operations{op: true})
					}
				}
			}
		}
		s.exact = exact
	}
}

func meet(a, b operations) bool {
	for op := range a {
		if b[op] {
			return true
		}
	}
	return false
}

// versions returns the webhooks for the rules that setApart removed from a shared webhook.
func (b *builder) versions(s *side, h *hook) []webhook {
	out := b.wildcards(s, h)
	for _, namespace := range slices.Sorted(maps.Keys(h.spaces)) {
		exact := h.spaces[namespace].exact
		for _, key := range slices.Sorted(maps.Keys(exact)) {
			rules := exact[key]
			programs := slices.DeleteFunc(slices.Clone(h.programs), func(p *policy.Program) bool { return p.Key() != key })
			if err := b.reserve(programs[0], room{webhooks: 1, bytes: webhookBytes}); err != nil {
				b.ready[ProgramKey(programs[0])] = LeftOut{err}
				continue
			}
			own := &hook{
				name: h.name + "-finegrained-" + strings.ReplaceAll(key, "/", "-"), path: h.path + "/finegrained/" + key,
				failurePolicy: h.failurePolicy, timeout: h.timeout, fine: true, namespace: namespace,
				programs: programs,
			}
			w := b.resourceWebhook(s, own)
			w.Rules, w.MatchConditions = rules.rules(), b.ownConditions(own)
			out = append(out, w)
		}
	}
	return out
}

// wildcards returns the webhook for wildcards of namespaced policies. It is called in their namespaces, for requests that the shared
// webhook does not cover.
func (b *builder) wildcards(s *side, h *hook) []webhook {
	all := ruleSet{}
	var spaces []space
	for _, namespace := range slices.Sorted(maps.Keys(h.spaces)) {
		own := h.spaces[namespace]
		text := textOf(united(own.apart).rules())
		if text == "" {
			continue
		}
		if shared := textOf(united(own.rules).rules()); shared != "" {
			text = "(" + text + ") && !(" + shared + ")"
		}
		spaces = append(spaces, space{namespace, text})
		all = united(all, own.apart)
	}
	if len(spaces) == 0 {
		return nil
	}
	w := b.resourceWebhook(s, h)
	w.Name = "wildcards." + h.name
	w.Rules, w.MatchConditions = all.rules(), b.ownConditions(h)
	if x, ok := h.reserved(); ok {
		w.MatchConditions = withCondition(w.MatchConditions, ReservedCondition, x)
	}
	confined := "!(" + textOf(united(h.rules, h.foreign()).rules()) + ") && " + h.confine(spaces)
	w.MatchConditions = withCondition(w.MatchConditions, ConfinedCondition, forTarget(confined))
	w.MatchConditions = b.withDerived(w.MatchConditions, h, all.operations())
	return []webhook{w}
}
