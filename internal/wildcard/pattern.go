package wildcard

import "strings"

// Pattern is a wildcard pattern that was analysed once, so that matching the common shapes (`*`, `?*`, literal, `prefix*`, `*suffix`,
// `*part*`) is one comparison. The zero Pattern is the empty pattern. It is immutable and small enough to be copied.
type Pattern struct {
	source string
	part   string // the text without its leading and trailing `*`, for all shapes but general
	shape  shape
	tried  int32 // the length of the longest part between two `*` that has a `?`; see Cost
}

type shape uint8

const (
	literal shape = iota
	anything
	nonEmpty
	prefix
	suffix
	contains
	general
)

// Compile prepares pattern. Every text is a valid pattern.
func Compile(pattern string) Pattern {
	p := Pattern{source: pattern, part: pattern}
	if !Has(pattern) {
		return p
	}
	inner := strings.Trim(pattern, "*")
	switch {
	case inner == "":
		p.shape = anything
	case inner == "?" && pattern != "?":
		p.shape = nonEmpty // `?` next to a `*`; alone it is exactly one character
	case Has(inner):
		p.shape, p.tried = general, int32(tried(pattern))
	default:
		p.part = inner
		lead, trail := pattern[0] == '*', pattern[len(pattern)-1] == '*'
		switch {
		case lead && trail:
			p.shape = contains
		case lead:
			p.shape = suffix
		default:
			p.shape = prefix
		}
	}
	return p
}

// Literal returns the pattern that matches only text, even if text contains wildcards.
func Literal(text string) Pattern { return Pattern{source: text, part: text} }

// Match reports whether the whole of s matches p. It allocates nothing. The two most frequent shapes are tested without a call.
func (p Pattern) Match(s string) bool {
	if p.shape <= anything {
		return p.shape == anything || p.part == s
	}
	return p.match(s)
}

// match is Match for the other shapes.
func (p Pattern) match(s string) bool {
	switch p.shape {
	case nonEmpty:
		return s != ""
	case prefix:
		return strings.HasPrefix(s, p.part)
	case suffix:
		return strings.HasSuffix(s, p.part)
	case contains:
		return strings.Contains(s, p.part)
	}
	return Match(p.source, s)
}

// Cost returns the work of p.Match(s), as the function Cost does.
func (p Pattern) Cost(s string) int {
	switch p.shape {
	case literal, prefix, suffix:
		return min(len(p.part), len(s)) / comparedPerStep
	case anything, nonEmpty:
		return 0
	}
	return work(p.source, s, int(p.tried))
}

// comparedPerStep is the number of bytes of two texts that are compared in a step.
const comparedPerStep = 64

// Literal returns the only text that p matches, and whether p has no wildcards.
func (p Pattern) Literal() (string, bool) { return p.source, p.shape == literal }

// Prefix returns a prefix of every text that p matches; empty when none is known.
func (p Pattern) Prefix() string {
	if i := strings.IndexAny(p.source, "*?"); i >= 0 {
		return p.source[:i]
	}
	return p.source
}

// String returns the source text of the pattern.
func (p Pattern) String() string { return p.source }
