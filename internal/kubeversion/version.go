package kubeversion

import (
	"fmt"
	"strconv"
	"strings"
)

// Minor is a minor version of Kubernetes 1. The zero value stands for Newest.
type Minor uint8

// The oldest supported version, and the newest whose rules are known.
const (
	Oldest Minor = 30
	Newest Minor = 37
)

// Parse reads a version such as 1.36, v1.36.3 or 1.36+.
func Parse(text string) (Minor, error) {
	major, rest, ok := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	minor := rest
	if i := strings.IndexAny(rest, ".-"); i >= 0 {
		minor = rest[:i]
	}
	v, known := Of(major, minor)
	if !ok || !known {
		return 0, fmt.Errorf("invalid version of Kubernetes %q: write it as 1.36", text)
	}
	return v, nil
}

// Of returns the version that an API server reports in two numbers. Providers may append a plus sign to the second one.
func Of(major, minor string) (Minor, bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(minor, "+"), 10, 8)
	return Minor(n), err == nil && major == "1" && n > 0
}

// Known returns the version whose rules apply: the version itself, or Newest for a newer one.
func (m Minor) Known() Minor {
	if m == 0 || m > Newest {
		return Newest
	}
	return m
}

// AtLeast returns the newer of both versions.
func (m Minor) AtLeast(o Minor) Minor {
	if m == 0 || o == 0 {
		return 0
	}
	return max(m, o)
}

// String returns the version as Kubernetes writes it, such as 1.36.
func (m Minor) String() string {
	if m == 0 {
		m = Newest
	}
	return "1." + strconv.Itoa(int(m))
}
