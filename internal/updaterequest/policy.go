package updaterequest

import (
	"strings"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/policy"
)

// SplitKey takes the key of a policy apart: namespace/name, or name.
func SplitKey(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return namespace, name
	}
	return "", key
}

// PolicyID is the ID of the policy that an UpdateRequest of a type names by its key. The zero ID, which no policy has, stands for a type
// that is not known.
func PolicyID(requestType kyvernov2.RequestType, key string) catalog.ID {
	namespace, name := SplitKey(key)
	k := compile.Kinds.ForWork(string(requestType), namespace != "")
	if k == nil {
		return catalog.ID{}
	}
	return catalog.ID{Kind: k.Kind, Namespace: namespace, Name: name}
}

// FindRule looks a rule up by the ID of its policy.
func FindRule(s *catalog.Snapshot, id catalog.ID, rule string) (*policy.Program, *policy.Rule) {
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
