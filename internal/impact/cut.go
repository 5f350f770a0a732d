package impact

import (
	"slices"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/jsonpointer"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// allStages has the stages of all rules that a request may reach.
const allStages = policy.StageMutate | policy.StageVerifyImages | policy.StageValidate | policy.StageGenerate | policy.StageMutateExisting

// ReadsCut determines whether rules for the request read values that are not recorded, which the JSON pointers select. unknown: a rule
// that decides reads one. assumed: a rule that changes or verifies something may read one; which fields such a rule reads is unknown.
func (r *Replica) ReadsCut(req *policy.Request, pointers []string) (unknown, assumed bool) {
	if len(pointers) == 0 {
		return false, false
	}
	about := req.WithObject(req.Object)
	about.Origin = policy.FromCLI // includes policies that have separate webhooks
	paths := make([][]string, len(pointers))
	for i, p := range pointers {
		paths[i] = jsonpointer.Split(p)
	}
	for _, s := range r.snapshot.For(about, catalog.Route{Stages: allStages}) {
		for _, rule := range s.Rules {
			if !slices.ContainsFunc(paths, func(path []string) bool { return mayRead(rule, path) }) {
				continue
			}
			if rule.Object != nil || rule.Stage.Has(policy.StageValidate) {
				return true, assumed
			}
			assumed = true
		}
	}
	return false, assumed
}

// mayRead reports whether a rule, or an exception from it, may read the value at a path in the request.
func mayRead(rule *policy.Rule, path []string) bool {
	fields := rule.Object
	if len(path) == 0 || path[0] == "oldObject" && rule.Needs.OldObject {
		fields = nil // it is unknown which fields of an old object are read
	}
	below := path[min(1, len(path)):]
	return readsBelow(fields, below) || slices.ContainsFunc(rule.Exceptions, func(e *policy.Exception) bool { return readsBelow(e.Reads, below) })
}

// readsBelow reports whether the value at the path is read. The annotation in which kubectl keeps a copy of the object counts only if the
// fields name it: rules keep all metadata for their selectors, which do not read that annotation.
func readsBelow(fields *value.Fields, path []string) bool {
	if fields == nil {
		return true
	}
	if len(path) == 3 && path[0] == "metadata" && path[1] == "annotations" {
		metadata := fields.Get("metadata")
		if metadata == nil || !metadata.All() && metadata.Get("annotations") == nil {
			return false
		}
	}
	return fields.Reads(path...)
}
