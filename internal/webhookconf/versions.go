package webhookconf

import (
	"maps"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/policy"
)

// The API server converts a request to a version that a webhook's rules name only if no rule of that webhook names the request's own
// version. A namespaced policy that names a further version, or all versions, would therefore change which version a cluster-wide policy
// receives, in all namespaces. This file keeps such rules out of the shared webhooks: a kind without a version is covered in the versions
// that cluster-wide policies name, and wildcards and explicit versions get separate webhooks.

// separateVersions removes rules of namespaced policies from the shared rules if they would change the version that cluster-wide policies receive.
// Wildcards move to policyCoverage.wildcards, and explicit versions to policyCoverage.exact; other selectors use the versions that cluster-wide policies name.
func (h *draft) separateVersions() {
	foreign := h.versions.Unnamed(h.rules)
	for _, s := range h.namespaces {
		exact := map[string]coverage.Set{}
		for f, ops := range foreign {
			for p, have := range s.rules {
				if !p.Covers(f) || !have.Meets(ops) {
					continue
				}
				if p.Name == "*" {
					s.wildcards.Add(have, p)
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
							exact[key] = coverage.Set{}
						}
						exact[key].Add(coverage.Operations{op: true}, f)
					}
				}
			}
		}
		s.exact = exact
	}
}

// versions returns the webhooks for the rules that separateVersions removed from a shared webhook.
func (b *builder) versions(s *phase, h *draft) []webhook {
	out := b.wildcards(s, h)
	for _, namespace := range slices.Sorted(maps.Keys(h.namespaces)) {
		exact := h.namespaces[namespace].exact
		for _, key := range slices.Sorted(maps.Keys(exact)) {
			rules := exact[key]
			programs := slices.DeleteFunc(slices.Clone(h.programs), func(p *policy.Program) bool { return p.Key() != key })
			if err := b.reserve(programs[0], quota{webhooks: 1, bytes: webhookBytes}); err != nil {
				b.ready[ProgramKey(programs[0])] = LeftOut{err}
				continue
			}
			own := &draft{
				name: h.name + "-finegrained-" + strings.ReplaceAll(key, "/", "-"), path: h.path + "/finegrained/" + key,
				failurePolicy: h.failurePolicy, timeout: h.timeout, fine: true, namespace: namespace,
				programs: programs,
			}
			w := b.resourceWebhook(s, own)
			w.Rules, w.MatchConditions = rules.Rules(), b.ownConditions(own)
			out = append(out, w)
		}
	}
	return out
}

// wildcards returns the webhook for wildcards of namespaced policies. It is called in their namespaces, for requests that the shared
// webhook does not cover.
func (b *builder) wildcards(s *phase, h *draft) []webhook {
	all := coverage.Set{}
	var texts []namespaceText
	for _, namespace := range slices.Sorted(maps.Keys(h.namespaces)) {
		own := h.namespaces[namespace]
		text := textOf(coverage.Union(own.wildcards).Rules())
		if text == "" {
			continue
		}
		if shared := textOf(coverage.Union(own.rules).Rules()); shared != "" {
			text = "(" + text + ") && !(" + shared + ")"
		}
		texts = append(texts, namespaceText{namespace, text})
		all = coverage.Union(all, own.wildcards)
	}
	if len(texts) == 0 {
		return nil
	}
	w := b.resourceWebhook(s, h)
	w.Name = "wildcards." + h.name
	w.Rules, w.MatchConditions = all.Rules(), b.ownConditions(h)
	if x, ok := h.reserved(); ok {
		w.MatchConditions = withCondition(w.MatchConditions, ReservedCondition, x)
	}
	confined := "!(" + textOf(coverage.Union(h.rules, h.versions.Unnamed(h.rules)).Rules()) + ") && " + h.confine(texts)
	w.MatchConditions = withCondition(w.MatchConditions, ConfinedCondition, forTarget(confined))
	w.MatchConditions = b.withDerived(w.MatchConditions, h, all.Operations())
	return []webhook{w}
}
