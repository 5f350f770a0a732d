package rule

import (
	"fmt"
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/world"
)

// ImagesOf implements imageverify.Language.
func (v *imageRule) ImagesOf(variables policy.Variables, object map[string]any) ([]imageref.Image, error) {
	s := variables.(*scope.Scope)
	return v.extractors.of(s.QueryEnv(), s.Request.GVK.Kind, object)
}

// Begin implements imageverify.Language.
func (v *imageRule) Begin(variables policy.Variables, entry int, image *imageref.Image) imageverify.Session {
	s := variables.(*scope.Scope).WithLazy("image", func(*scope.Scope) (any, error) { return image.Document(), nil })
	return &imageSession{entry: v.entries[entry], image: image, scope: s}
}

// imageSession is the evaluation of one image by one entry. Named statements extend its scope.
type imageSession struct {
	entry *imageEntry
	image *imageref.Image
	scope *scope.Scope
}

// Plan implements imageverify.Session.
func (i *imageSession) Plan() (*imageverify.Plan, error) { return i.entry.planFor(i.scope) }

// Examine implements imageverify.Session. All statements must satisfy the conditions.
func (i *imageSession) Examine(attestation int, statements []world.Statement) (use func(), err error) {
	name, conditions := i.entry.names[attestation], i.entry.conditions[attestation]
	last := i.scope
	for _, st := range statements {
		named := i.scope
		if name != "" {
			named = named.With(name, st.Predicate)
		}
		last = named
		if conditions == nil {
			continue
		}
		verdict, err := conditions.Eval(named.QueryEnv(), withFields(named, st.Predicate))
		if err != nil {
			return nil, fmt.Errorf("failed to check attestations: %w", err)
		}
		if !verdict.OK {
			return nil, &world.UnverifiedError{Reason: "attestation checks failed for " + i.image.Pinned() + " and predicate " + st.Type + ": " + verdict.Message()}
		}
	}
	return func() { i.scope = last }, nil
}

// Validate implements imageverify.Session.
func (i *imageSession) Validate() policy.Yield { return i.entry.deny(i.scope) }

// withFields defines the fields of a predicate as variables.
func withFields(s *scope.Scope, predicate any) *scope.Scope {
	fields, _ := predicate.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		s = s.With(name, fields[name])
	}
	return s
}
