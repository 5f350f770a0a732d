package policyreview

import (
	"slices"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// link is a rule that also evaluates requests of the background controller, so that it can be part of a loop.
type link struct {
	program *policy.Program
	rule    *policy.Rule
}

func (l link) String() string { return l.program.Key() + "/" + l.rule.Name }

// checkLoops warns of rules that trigger each other for ever: each generates or changes a trigger of the next, and none skips requests of
// the background controller (skipBackgroundRequests: false). It only warns, since names, labels or conditions that are not known here may
// end the loop; if they do not, the background controller does.
func (v *Reviewer) checkLoops(p *policy.Program) diag.List {
	var diags diag.List
	links := linksOf(p)
	own := len(links)
	if own == 0 {
		return nil
	}
	for _, other := range v.Programs() {
		if other.Key() != p.Key() || other.Kind != p.Kind {
			links = append(links, linksOf(other)...)
		}
	}
	warned := map[link]bool{}
	for _, l := range links[:own] {
		loop := loopOf(l, links)
		if loop == nil || warned[l] {
			continue
		}
		names := make([]string, 0, len(loop)+1)
		for _, x := range loop {
			warned[x] = true
			names = append(names, x.String())
		}
		names = append(names, l.String())
		diags.Warnf(l.rule.Path, "rules may trigger each other for ever: %s; the background controller stops such work after %d steps. "+
			"Set skipBackgroundRequests: true, or let match exclude the objects that the rules make", strings.Join(names, " → "), policy.MaxHops)
	}
	return diags
}

// linksOf returns the rules of a policy that may be part of a loop.
func linksOf(p *policy.Program) []link {
	var out []link
	for _, r := range p.Rules {
		if r.OnBackground && !r.Origin.IsAutogen() && p.Settings.Admission {
			out = append(out, link{p, r})
		}
	}
	return out
}

// loopOf returns the shortest path from a rule back to itself; nil if there is none.
func loopOf(start link, links []link) []link {
	before := map[link]link{} // the predecessor of each link
	for next := []link{start}; len(next) > 0; next = next[1:] {
		at := next[0]
		for _, l := range links {
			if !triggers(at, l) {
				continue
			}
			if l == start {
				way := []link{at}
				for at != start {
					at = before[at]
					way = append(way, at)
				}
				slices.Reverse(way)
				return way
			}
			if _, seen := before[l]; !seen {
				before[l] = at
				next = append(next, l)
			}
		}
	}
	return nil
}

// triggers reports whether an object that rule a generates or changes may be a trigger of rule b. It ignores kinds in variables.
func triggers(a, b link) bool {
	for _, g := range a.rule.Grants {
		if g.Source || strings.Contains(g.APIVersion+g.Kind, "{{") {
			continue
		}
		if b.program.Namespace != "" && literal(g.Namespace) && g.Namespace != b.program.Namespace {
			continue
		}
		if slices.ContainsFunc(b.rule.Targets, func(t policy.Target) bool { return meets(g, t) }) {
			return true
		}
	}
	return false
}

func literal(s string) bool { return s != "" && !wildcard.Has(s) && !strings.Contains(s, "{{") }

// meets reports whether the target may select objects of the grant.
func meets(g policy.Grant, t policy.Target) bool {
	gvk := apischema.FromAPIVersionAndKind(g.APIVersion, g.Kind)
	kind, sub, _ := strings.Cut(gvk.Kind, "/")
	if t.ByResource() {
		kind = discovery.ResourceOf(apischema.GroupVersionKind{Kind: kind}).Resource // a guess is sufficient for a warning
	}
	if !either(named(t), kind) || !either(t.Group, gvk.Group) || !either(t.Version, gvk.Version) || t.Subresource != sub && t.Subresource != "*" {
		return false
	}
	if len(t.Operations) > 0 && !slices.Contains(t.Operations, policy.Create) && !slices.Contains(t.Operations, policy.Update) {
		return false
	}
	within := func(patterns []string, name string) bool {
		return patterns == nil || !literal(name) || wildcard.MatchAny(patterns, name)
	}
	return within(t.Names, g.Name) && within(t.Namespaces, g.Namespace)
}

// either reports whether one of two patterns matches the other.
func either(a, b string) bool { return wildcard.Match(a, b) || wildcard.Match(b, a) }
