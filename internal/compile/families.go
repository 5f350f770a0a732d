package compile

import (
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/family/cleanup"
	"ephor.invalid/ephor/internal/family/deleting"
	"ephor.invalid/ephor/internal/family/generating"
	"ephor.invalid/ephor/internal/family/imagevalidating"
	"ephor.invalid/ephor/internal/family/mutating"
	"ephor.invalid/ephor/internal/family/native"
	"ephor.invalid/ephor/internal/family/validating"
)

// Product is the explicit list of the families of Ephor.
var Product = NewRegistry(
	classic.Family,
	cleanup.Family,
	native.Family,
	validating.Family,
	mutating.Family,
	generating.Family,
	imagevalidating.Family,
	deleting.Family,
)

// Kinds are the kinds of all families of Ephor, in their order.
var Kinds = Product.Kinds()

// The functions below are the methods of Product.

// FamilyOf returns the family of policies of a kind, in any version; nil if the kind is not one of policies.
func FamilyOf(apiVersion, kind string) *family.Family { return Product.FamilyOf(apiVersion, kind) }

// HandedOver reports whether the API server itself enforces the policy on requests (family.Family.HandedOver).
func HandedOver(object map[string]any) bool { return Product.HandedOver(object) }

// CompanionOf returns the kind of companions of an object; nil if it is not a companion.
func CompanionOf(apiVersion, kind string) *family.Companion {
	return Product.CompanionOf(apiVersion, kind)
}

// Owns reports whether some family compiles objects of the kind.
func Owns(apiVersion, kind string) bool { return Product.Owns(apiVersion, kind) }
