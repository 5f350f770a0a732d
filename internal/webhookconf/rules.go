package webhookconf

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

// add adds the selectors of a rule, without the operations that its exclude block definitely excludes. It returns the number of
// selectors that select nothing that the API server serves. A namespaced policy adds only namespaced resources, since it matches nothing
// else. If the kind of a selector may be in a group that cannot be listed (unlisted), add returns that error, and adds the other selectors.
func (s *policyCoverage) add(program *policy.Program, r *policy.Rule, defaults coverage.Operations, known discovery.Resources) (unknown int, err error) {
	namespacedPolicy := program.Namespace != ""
	own, exact, resize := coverage.Set{}, coverage.Set{}, coverage.Set{}
	var incomplete error
	for _, t := range r.Targets {
		resources, served, err := coverage.Of(t, namespacedPolicy, known)
		if unlisted(err) {
			incomplete = err
			continue
		}
		if err != nil {
			return unknown, err
		}
		if !served {
			unknown++
		}
		for _, p := range resources {
			switch {
			case p.Name == "*":
				s.wild = true
				if p.Subresource != "" && p.Subresource != "*" {
					s.named.addSubresource(p.Subresource)
				}
			case !t.Wild():
				s.named.add(p)
			case reservedFor(p) != nil:
				continue
			case holdsOwn(p):
				s.wild = true
			}
			own.Add(coverage.OfTarget(t, defaults), p)
			if namespacedPolicy && t.Version != "*" {
				exact.Add(coverage.OfTarget(t, defaults), p)
			}
		}
		if !namespacedPolicy {
			if err := s.versions.Add(t, resources, known); err != nil {
				return unknown, err
			}
		}
		if err := addResize(resize, t, coverage.OfTarget(t, defaults), known); err != nil {
			return unknown, err
		}
	}
	for _, t := range r.Excludes {
		if t.Names != nil || t.Namespaces != nil || t.MatchLabels != nil {
			continue // the exclusion depends on the object
		}
		resources, _, err := coverage.Of(t, namespacedPolicy, known)
		if err != nil {
			continue // the rules may cover more requests; the engine filters them
		}
		own.Remove(coverage.OfTarget(t, coverage.All()), resources...)
		exact.Remove(coverage.OfTarget(t, coverage.All()), resources...)
		resize.Remove(coverage.OfTarget(t, coverage.All()), resources...)
		if isPod(t) {
			resize.Remove(coverage.OfTarget(t, coverage.All()), podResize)
		}
	}
	for p, ops := range own {
		s.rules.Add(ops, p)
	}
	for p, ops := range exact {
		if s.exact[program.Key()] == nil {
			s.exact[program.Key()] = coverage.Set{}
		}
		s.exact[program.Key()].Add(ops, p)
	}
	for op := range resize[podResize] {
		s.resize[op] = true
	}
	return unknown, incomplete
}

// unlisted reports whether an error says that some groups cannot be listed.
func unlisted(err error) bool {
	var groups *clientdiscovery.ErrGroupDiscoveryFailed
	return errors.As(err, &groups)
}

// addOutputs adds the kinds that a generate rule creates, because the rule also reacts to their changes. Its errors are those of add.
func (s *policyCoverage) addOutputs(program *policy.Program, r *policy.Rule, known discovery.Resources) (unknown int, err error) {
	namespacedPolicy := program.Namespace != ""
	var incomplete error
	for _, o := range r.Outputs {
		gv, err := schema.ParseGroupVersion(o.APIVersion)
		if err != nil || strings.Contains(o.APIVersion+o.Kind, "{{") {
			continue // the kind is only known when the rule is executed
		}
		found, err := known.Find(policy.Target{Group: gv.Group, Version: gv.Version, Kind: o.Kind})
		if unlisted(err) {
			incomplete = err
			continue
		}
		if err != nil {
			return unknown, err
		}
		if len(found) == 0 {
			unknown++
		}
		var resources []coverage.Resource
		for _, r := range found {
			if namespacedPolicy && !r.Namespaced {
				continue
			}
			s.named.add(coverage.Resource{Group: r.Group, Name: r.Resource})
			s.rules.Add(coverage.OperationsOf(policy.Create, policy.Update, policy.Delete), coverage.Found(r))
			resources = append(resources, coverage.Found(r))
		}
		if !namespacedPolicy {
			if err := s.versions.Add(policy.Target{Group: gv.Group, Version: gv.Version, Kind: o.Kind}, resources, known); err != nil {
				return unknown, err
			}
		}
	}
	return unknown, incomplete
}
