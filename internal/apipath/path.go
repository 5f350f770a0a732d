package apipath

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// Path is one path of the API: either a resource (Resource is set) or another path that the server serves, such as /version (Other is
// set).
type Path struct {
	Group, Version string // Group is empty for the core group
	Namespace      string // empty for cluster-scoped resources and for lists over all namespaces
	Resource       string // plural, such as pods
	Name           string // empty for a list
	Subresource    []string
	Other          []string
	Query          url.Values
}

// The maximum lengths of a label and of all other names.
const (
	longestLabel = 63
	longestName  = 253
)

// isLabel reports whether the text is a label: lowercase letters, digits and, inside, dashes.
func isLabel(text string) bool { return isName(text, longestLabel, "-") }

// isDomain reports whether the text consists of labels separated by dots.
func isDomain(text string) bool { return isName(text, longestName, "-.") }

func isName(text string, longest int, inside string) bool {
	for i := range len(text) {
		c := text[i]
		if !isLowerOrDigit(c) && (i == 0 || i == len(text)-1 || strings.IndexByte(inside, c) < 0) {
			return false
		}
	}
	return text != "" && len(text) <= longest
}

// isSegment reports whether the text has only characters that names in Kubernetes may have.
func isSegment(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isLowerOrDigit(c) && (c < 'A' || c > 'Z') && strings.IndexByte("._:~@+=,-", c) < 0 {
			return false
		}
	}
	return text != "" && len(text) <= longestName
}

func isLowerOrDigit(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// endless are query parameters that make the response endless.
var endless = []string{"watch", "follow"}

// maxLength is the maximum length of a path in bytes.
const maxLength = 8 << 10

// Error is the reason why a path is rejected.
type Error struct {
	Path, Reason string
	// Unserved: the path is unambiguous, but it has the name of a resource that no API server serves, such as one with capital letters.
	// No request is sent for it either.
	Unserved bool
}

func (e *Error) Error() string { return fmt.Sprintf("invalid API path %q: %s", e.Path, e.Reason) }

// Parse parses a path with its query. It rejects, with an *Error, everything that servers and proxies are known to interpret in
// different ways: empty segments, dot segments (escaped or not), fragments, and characters that no name in Kubernetes has. It accepts
// one slash at the end and blanks around the path.
func Parse(text string) (Path, error) {
	refuse := func(format string, args ...any) (Path, error) {
		return Path{}, &Error{Path: value.Clip(text, 200), Reason: fmt.Sprintf(format, args...)}
	}
	if len(text) > maxLength {
		return refuse("it is longer than %d bytes", maxLength)
	}
	raw, rawQuery, hasQuery := strings.Cut(strings.TrimSpace(text), "?")
	if strings.Contains(raw, "#") || strings.Contains(rawQuery, "#") {
		return refuse("it holds a `#`")
	}
	if !strings.HasPrefix(raw, "/") {
		return refuse("it does not begin with a slash")
	}
	var parts []string
	for _, s := range strings.Split(strings.TrimSuffix(raw[1:], "/"), "/") {
		decoded, err := url.PathUnescape(s)
		switch {
		case err != nil:
			return refuse("%q is not escaped properly", s)
		case decoded == "":
			return refuse("it has an empty segment")
		case decoded == "." || decoded == "..":
			return refuse("it has a dot segment")
		case !isSegment(decoded):
			return refuse("the segment %q has characters that no Kubernetes name has", decoded)
		}
		parts = append(parts, decoded)
	}
	p, err := fromParts(parts)
	if err != "" {
		return Path{}, &Error{Path: value.Clip(text, 200), Reason: err, Unserved: p.Resource != ""}
	}
	if hasQuery && rawQuery != "" {
		query, err := url.ParseQuery(rawQuery)
		if err != nil {
			return refuse("the query cannot be read")
		}
		for key := range query {
			if slices.Contains(endless, key) {
				return refuse("with the parameter %s the answer would never end", key)
			}
		}
		p.Query = query
		if len(p.String()) > maxLength { // escaping makes some queries longer
			return refuse("it is longer than %d bytes when it is escaped", maxLength)
		}
	}
	return p, nil
}

// fromParts makes a path from its decoded segments; reason says why they are not a path.
func fromParts(parts []string) (p Path, reason string) {
	rest := parts
	switch {
	case len(parts) > 2 && parts[0] == "api":
		p.Version, rest = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		p.Group, p.Version, rest = parts[1], parts[2], parts[3:]
		if !isDomain(p.Group) {
			return p, fmt.Sprintf("%q is not an API group", p.Group)
		}
	default:
		return Path{Other: parts}, ""
	}
	if !isLabel(p.Version) {
		return p, fmt.Sprintf("%q is not an API version", p.Version)
	}
	ownSubresource := len(rest) == 3 && p.Group == "" && (rest[2] == "status" || rest[2] == "finalize")
	if rest[0] == "namespaces" && len(rest) > 2 && !ownSubresource {
		if p.Namespace = rest[1]; !isLabel(p.Namespace) {
			return p, fmt.Sprintf("%q is not the name of a namespace", p.Namespace)
		}
		rest = rest[2:]
	}
	if p.Resource = rest[0]; !isDomain(p.Resource) {
		return p, fmt.Sprintf("%q is not the name of a resource", p.Resource)
	}
	if len(rest) > 1 {
		p.Name = rest[1]
	}
	if len(rest) > 2 {
		p.Subresource = rest[2:]
	}
	return p, ""
}

// InNamespace returns the namespace that the path stays in; empty when it may reach several namespaces or none. A Namespace object
// counts as its own namespace.
func (p Path) InNamespace() string {
	if p.Namespace == "" && p.Group == "" && p.Resource == "namespaces" {
		return p.Name
	}
	return p.Namespace
}

// APIVersion returns group/version, or only the version for the core group.
func (p Path) APIVersion() string {
	if p.Group == "" {
		return p.Version
	}
	return p.Group + "/" + p.Version
}

// Segments returns the segments of the path, without the query. None of them needs escaping.
func (p Path) Segments() []string {
	if p.Resource == "" {
		return p.Other
	}
	var out []string
	if p.Group == "" {
		out = append(out, "api", p.Version)
	} else {
		out = append(out, "apis", p.Group, p.Version)
	}
	if p.Namespace != "" {
		out = append(out, "namespaces", p.Namespace)
	}
	out = append(out, p.Resource)
	if p.Name != "" {
		out = append(out, p.Name)
	}
	return append(out, p.Subresource...)
}

// String builds the path, with its query, from its parts.
func (p Path) String() string {
	s := "/" + strings.Join(p.Segments(), "/")
	if len(p.Query) > 0 {
		s += "?" + p.Query.Encode()
	}
	return s
}
