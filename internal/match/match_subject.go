package match

import (
	"context"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// subjectPattern is one subject of a filter: a pattern for the user name, or for one of the groups.
type subjectPattern struct {
	group   bool
	pattern wildcard.Pattern
}

// compileSubject compiles a subject. ok is false for a kind other than User, Group and ServiceAccount: such a subject matches
// no requester.
func compileSubject(kind, namespace, name string) (s subjectPattern, ok bool) {
	switch kind {
	case "User":
		return subjectPattern{pattern: wildcard.Compile(name)}, true
	case "Group":
		return subjectPattern{group: true, pattern: wildcard.Compile(name)}, true
	case "ServiceAccount":
		return subjectPattern{pattern: wildcard.Compile("system:serviceaccount:" + namespace + ":" + name)}, true
	}
	return subjectPattern{}, false
}

// matchSubjects tests that one of the subjects is the requester or one of its groups.
func matchSubjects(subjects []subjectPattern) test {
	return func(ctx context.Context, r *policy.Request) (bool, error) {
		steps := 0
		for i := range subjects {
			s := &subjects[i]
			if !s.group {
				steps += 1 + s.pattern.Cost(r.User.Username)
				continue
			}
			for _, g := range r.User.Groups {
				steps += 1 + s.pattern.Cost(g)
			}
		}
		if err := charge(ctx, steps); err != nil {
			return false, err
		}
		for i := range subjects {
			s := &subjects[i]
			if !s.group {
				if s.pattern.Match(r.User.Username) {
					return true, nil
				}
				continue
			}
			for _, g := range r.User.Groups {
				if s.pattern.Match(g) {
					return true, nil
				}
			}
		}
		return false, nil
	}
}
