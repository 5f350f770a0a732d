package match

import (
	"context"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/policy"
)

// ParseKind parses a kind selector:
//
//	Kind  Kind/sub  Kind.sub  v1/Kind  v1/Kind/sub  group/v1/Kind  group/v1/Kind/sub  */sub  */*  *
//
// Every part of the Target may contain wildcards. A missing part becomes `*`, except the subresource, which becomes
// empty: only the main resource. A selector of another form is an error; it matches nothing.
func ParseKind(s string) (policy.Target, error) {
	parts := strings.Split(s, "/")
	// The last piece may contain the subresource in the old notation, Kind.sub.
	if last, sub, ok := strings.Cut(parts[len(parts)-1], "."); ok {
		parts = append(parts[:len(parts)-1], last, sub)
	}
	bad := fmt.Errorf("%q is not of the form group/version/Kind/subresource", s)
	for _, p := range parts {
		if p == "" {
			return policy.Target{}, bad
		}
	}
	t := policy.Target{Group: "*", Version: "*"}
	switch len(parts) {
	case 1:
		t.Kind = parts[0]
	case 2:
		switch {
		case parts[0] == "*" && parts[1] == "*":
			t.Kind, t.Subresource = "*", "*"
		case parts[0] == "*" && startsLower(parts[1]):
			t.Kind, t.Subresource = "*", parts[1]
		case isVersion(parts[0]):
			t.Version, t.Kind = parts[0], parts[1]
		default:
			t.Kind, t.Subresource = parts[0], parts[1]
		}
	case 3:
		switch {
		case isVersion(parts[0]) && !leadingGroup(parts):
			t.Version, t.Kind, t.Subresource = parts[0], parts[1], parts[2]
		case isVersion(parts[1]):
			t.Group, t.Version, t.Kind = parts[0], parts[1], parts[2]
		default:
			return policy.Target{}, bad
		}
	case 4:
		if !isVersion(parts[1]) {
			return policy.Target{}, bad
		}
		t.Group, t.Version, t.Kind, t.Subresource = parts[0], parts[1], parts[2], parts[3]
	default:
		return policy.Target{}, bad
	}
	return t, nil
}

// leadingGroup decides for three pieces that begin with `*` or a version: `*/v1/Kind` and `*/*/Kind` begin with a
// group, `v1/Kind/sub` and `*/*/*` with a version.
func leadingGroup(parts []string) bool {
	if parts[0] != "*" || !isVersion(parts[1]) {
		return false
	}
	return parts[1] != "*" || (parts[2] != "*" && !startsLower(parts[2]))
}

// isVersion reports whether s is `*` or looks like v1, v2alpha1 or v1beta3.
func isVersion(s string) bool {
	if s == "*" {
		return true
	}
	rest, ok := strings.CutPrefix(s, "v")
	if !ok {
		return false
	}
	rest, ok = cutDigits(rest)
	if !ok || rest == "" {
		return ok
	}
	stage, ok := strings.CutPrefix(rest, "alpha")
	if !ok {
		stage, ok = strings.CutPrefix(rest, "beta")
	}
	if !ok {
		return false
	}
	rest, ok = cutDigits(stage)
	return ok && rest == ""
}

// cutDigits drops the digits at the beginning of s; ok is false if there are none.
func cutDigits(s string) (rest string, ok bool) {
	rest = strings.TrimLeft(s, "0123456789")
	return rest, len(rest) < len(s)
}

func startsLower(s string) bool { return s[0] >= 'a' && s[0] <= 'z' }

// matchKinds tests that at least one selector matches.
func matchKinds(targets []policy.Target) test {
	selectors := make([]policy.Selector, len(targets))
	for i, t := range targets {
		selectors[i] = t.Compile()
	}
	return func(_ context.Context, r *policy.Request) (bool, error) {
		for i := range selectors {
			if selectors[i].CoversKind(r) {
				return true, nil
			}
		}
		return false, nil
	}
}
