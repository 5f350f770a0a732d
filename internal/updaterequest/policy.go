package updaterequest

import (
	"slices"
	"strings"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
)

// SplitKey splits the key of a policy, which is namespace/name or name.
func SplitKey(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return namespace, name
	}
	return "", key
}

// PolicyID returns the ID of the policy from the type and the policy key of an UpdateRequest. For an unknown type it returns the zero ID,
// which no policy has.
func PolicyID(requestType kyvernov2.RequestType, key string) policy.ID {
	namespace, name := SplitKey(key)
	k := compile.Kinds.ForWork(string(requestType), namespace != "")
	if k == nil {
		return policy.ID{}
	}
	return policy.ID{Kind: k.Kind, Namespace: namespace, Name: name}
}

// Type returns the type of the UpdateRequests for a rule of the policy.
func Type(id policy.ID, r *policy.Rule) kyvernov2.RequestType {
	k := compile.Kinds.Named(id.Kind)
	switch {
	case k == nil:
		return ""
	case r.Stage.Has(policy.StageMutateExisting):
		return kyvernov2.RequestType(k.Work.Mutate)
	}
	return kyvernov2.RequestType(k.Work.Generate)
}

// Mutates reports whether UpdateRequests of the type change existing objects.
func Mutates(requestType kyvernov2.RequestType) bool {
	return requestType != "" && slices.ContainsFunc(compile.Kinds, func(k *family.Kind) bool { return k.Work.Mutate == string(requestType) })
}

// IDOf returns the ID of the policy that a mark names.
func IDOf(c mark.Claim) policy.ID {
	if c.Kind == "" {
		return PolicyID(kyvernov2.Generate, c.Policy)
	}
	namespace, name := SplitKey(c.Policy)
	return policy.ID{Kind: c.Kind, Namespace: namespace, Name: name}
}

// ClaimOf returns the mark for objects of a rule of the policy, without the trigger. The mark omits the kind if IDOf can determine it
// without.
func ClaimOf(id policy.ID, rule string) mark.Claim {
	c := mark.Claim{Policy: id.Key(), Rule: rule}
	if IDOf(c) != id {
		c.Kind = id.Kind
	}
	return c
}

// FindRule finds a rule by the ID of its policy and its name.
func FindRule(s *catalog.Snapshot, id policy.ID, rule string) (*policy.Program, *policy.Rule) {
	p := s.Get(id)
	if p == nil {
		return nil, nil
	}
	for _, r := range p.Rules {
		if r.Name == rule && r.Stage.Has(policy.StageGenerate|policy.StageMutateExisting) {
			return p, r
		}
	}
	return p, nil
}
