// Package wildcard matches text against patterns of `*` and `?`.
//
//	wildcard.Match("prod-*", "prod-eu")        // true
//	p := wildcard.Compile("registry.io/*")     // once, at compile time of a policy
//	p.Match("registry.io/nginx")               // true, no allocation
//
// `*` matches any sequence of characters, including none and including `/`; `?` matches exactly one character (not byte). There is no
// escaping, case matters, and the whole text must match; the empty pattern matches only the empty text. Pairs are expected labels with
// wildcards. The package does not support alternatives (`|`), operators or file name globs.
//
// Floor 0 (leaf): imports nothing of ours.
package wildcard
