package compile

import (
	"strings"

	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// Registry is a list of families, and compiles their policies. It is immutable and safe for concurrent use. The methods of a nil *Registry
// are those of Product, so options name a registry only if it differs.
type Registry struct {
	families []*family.Family
	kinds    family.Kinds
}

// NewRegistry returns the registry of some families.
func NewRegistry(families ...*family.Family) *Registry {
	r := &Registry{families: families}
	for _, f := range families {
		r.kinds = append(r.kinds, f.Kinds...)
	}
	return r
}

// Families returns the families, in their order. The list is shared and read-only.
func (r *Registry) Families() []*family.Family { return r.orProduct().families }

// Kinds returns the kinds of all families, in their order. The list is shared and read-only.
func (r *Registry) Kinds() family.Kinds { return r.orProduct().kinds }

// Endpoints returns the endpoints of the webhooks for policies of all families.
func (r *Registry) Endpoints() (out []policy.Endpoint) {
	for _, f := range r.Families() {
		out = append(out, f.Endpoints...)
	}
	return out
}

// FamilyOf returns the family of policies of a kind, in any version; nil if the kind is not one of policies.
func (r *Registry) FamilyOf(apiVersion, kind string) *family.Family {
	for _, f := range r.Families() {
		if f.Kinds.Owner(apiVersion, kind) != nil {
			return f
		}
	}
	return nil
}

// CompanionOf returns the kind of companions of an object, in any version; nil if it is not a companion.
func (r *Registry) CompanionOf(apiVersion, kind string) *family.Companion {
	group, _, _ := strings.Cut(apiVersion, "/")
	for _, f := range r.Families() {
		if c := f.Companion(group, kind); c != nil {
			return c
		}
	}
	return nil
}

// HandedOver reports whether the API server itself enforces the policy on requests (family.Family.HandedOver).
func (r *Registry) HandedOver(object map[string]any) bool {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	f := r.FamilyOf(apiVersion, kind)
	return f != nil && f.HandedOver != nil && f.HandedOver(object)
}

// Owns reports whether some family compiles objects of the kind.
func (r *Registry) Owns(apiVersion, kind string) bool { return r.FamilyOf(apiVersion, kind) != nil }

// Evaluates reports whether Ephor evaluates policies of the kind in a cluster. The API server evaluates the policies of the other kinds
// that Owns accepts.
func (r *Registry) Evaluates(apiVersion, kind string) bool {
	k := r.Kinds().Owner(apiVersion, kind)
	return k != nil && !k.Foreign
}

func (r *Registry) orProduct() *Registry {
	if r == nil {
		return Product
	}
	return r
}
