package impact

import (
	"slices"
	"sync"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// maxReads is the number of kinds of requests whose fields are remembered.
const maxReads = 1000

// reading returns a function for the fields that are read from the object of a request: admission decodes only these
// (docs/contributing/partial-decoding.md). It returns nil if rules change objects, since the report needs the whole object to show a change.
// before may be nil.
func reading(after, before *Replica) func(*policy.Request) *value.Fields {
	if !after.onlyValidates() || before != nil && !before.onlyValidates() {
		return nil
	}
	var mu sync.RWMutex
	united := map[[2]*value.Fields]*value.Fields{}
	return func(req *policy.Request) *value.Fields {
		key := [2]*value.Fields{after.reads(req)}
		if before != nil {
			key[1] = before.reads(req)
		}
		if key[0] == nil || before != nil && key[1] == nil {
			return nil
		}
		mu.RLock()
		all := united[key]
		mu.RUnlock()
		if all != nil {
			return all
		}
		all = &value.Fields{}
		all.Member("metadata").ReadAllBut("managedFields") // the report needs owners and labels
		for _, one := range key {
			if one != nil {
				all.Merge(one)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(united) >= maxReads {
			clear(united)
		}
		united[key] = all
		return all
	}
}

// onlyValidates reports whether no rule of the Replica changes or verifies anything.
func (r *Replica) onlyValidates() bool {
	return !slices.ContainsFunc(r.programs, func(p *policy.Program) bool {
		return slices.ContainsFunc(p.Rules, func(rule *policy.Rule) bool { return rule.Stage&^policy.StageValidate != 0 })
	})
}

// reads returns the fields that all rules for a request read from its object, whichever webhook they belong to.
func (r *Replica) reads(req *policy.Request) *value.Fields {
	return r.snapshot.Reads(&policy.Request{Review: policy.Review{
		Origin: policy.FromCLI, // includes policies that have separate webhooks
		GVK:    req.GVK, RequestGVK: req.RequestGVK, GVR: req.GVR, Subresource: req.Subresource, Asked: req.Asked, Operation: req.Operation, Namespace: req.Namespace, Name: req.Name,
	}}, catalog.Route{Stages: allStages})
}
