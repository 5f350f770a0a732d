package taped

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// The methods of lookups about the request itself, and of those that decisions read. Labels is also a member of a World.
const (
	Roles  = "roles"
	Labels = "labels"
	Access = "access"
	random = "random"
)

// RolesOf returns the canonical request for the roles of a user for requests in a namespace.
func RolesOf(user string, groups []string, namespace string) string {
	return world.Canonical(user, world.Canonical(groups...), namespace)
}

// Personal reports whether a lookup of the method names the requester.
func Personal(method string) bool { return method == Roles || method == Access }

// Limits of the stored form of a request.
const (
	maxAsked  = 1 << 10
	keptAsked = 512
)

// Brief returns the form in which Asked is stored. It shortens a long text to its beginning and its digest.
func Brief(asked string) string {
	if len(asked) <= maxAsked {
		return asked
	}
	sum := sha256.Sum256([]byte(asked))
	return value.Clip(asked, keptAsked) + hex.EncodeToString(sum[:])
}

// Digest returns the salted digest of the hidden parts of a request, which is stored in their place; empty if nothing is hidden.
func Digest(salt []byte, method, reach, asked string, hidden []string) string {
	if len(hidden) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, salt)
	q := question{method, reach, world.Key{Asked: asked, Hidden: hidden}}
	mac.Write([]byte(q.key()))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
