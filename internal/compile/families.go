package compile

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/family/classic"
	"github.com/ephor-dev/ephor/internal/family/cleanup"
	"github.com/ephor-dev/ephor/internal/family/deleting"
	"github.com/ephor-dev/ephor/internal/family/generating"
	"github.com/ephor-dev/ephor/internal/family/mutating"
	"github.com/ephor-dev/ephor/internal/family/native"
	"github.com/ephor-dev/ephor/internal/family/validating"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Families is the explicit list of policy families.
var Families = []*family.Family{
	classic.Family,
	cleanup.Family,
	native.Family,
	validating.Family,
	mutating.Family,
	generating.Family,
	deleting.Family,
}

// Kinds are the kinds of all families, in their order.
var Kinds = kindsOf(Families)

func kindsOf(families []*family.Family) (all family.Kinds) {
	for _, f := range families {
		all = append(all, f.Kinds...)
	}
	return all
}

// Endpoints are where the webhooks for policies of all families ask.
func Endpoints() (out []policy.Endpoint) {
	for _, f := range Families {
		out = append(out, f.Endpoints...)
	}
	return out
}

// FamilyOf returns the family of policies of a kind, whatever their version; nil when the kind is none of a policy.
func FamilyOf(apiVersion, kind string) *family.Family {
	for _, f := range Families {
		if f.Kinds.Owner(apiVersion, kind) != nil {
			return f
		}
	}
	return nil
}

// CompanionOf returns the kind of companions of policies that objects of the kind are, whatever their version; nil when they are
// none.
func CompanionOf(apiVersion, kind string) *family.Companion {
	group, _, _ := strings.Cut(apiVersion, "/")
	for _, f := range Families {
		if c := f.Companion(group, kind); c != nil {
			return c
		}
	}
	return nil
}

// Owns reports whether some family compiles objects of the kind.
func Owns(apiVersion, kind string) bool { return FamilyOf(apiVersion, kind) != nil }

// Evaluates reports whether Ephor evaluates policies of the kind in a cluster. The API server evaluates those of the other
// kinds that Owns accepts.
func Evaluates(apiVersion, kind string) bool {
	k := Kinds.Owner(apiVersion, kind)
	return k != nil && !k.Foreign
}
