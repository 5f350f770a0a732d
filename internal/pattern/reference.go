package pattern

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

// Bounds of the references in one document: how many references one may follow (which also ends cycles), and how much text
// they may create together (which stops a document that doubles itself at each step).
const (
	maxHops = 32
	maxText = 1 << 20
)

// ResolveReferences replaces every $(path) in the strings of document v by the value at that path in the document. A path
// that begins with a slash starts at the root of v; any other starts at the place of the string, so ./../key is the sibling
// key. List elements are named by their index; a key is found under its text or, failing that, under its text with an
// anchor around it. The path may follow an operator: $(<./../limit). A string that is exactly one reference without
// operator becomes the value itself; in other text the value becomes text. \$(x) becomes $(x).
//
// v is not changed; parts without references are shared with the result. The errors have the texts of the policy language.
func ResolveReferences(v any) (any, error) {
	r := resolver{document: v}
	out, _, err := r.value(v, "/", 0)
	return out, err
}

// Quote replaces the references in a message, whose siblings are the fields of document: $(./../pattern/spec/replicas) is
// the value of replicas in the pattern, and so is $(/spec/replicas), which starts at the root of the document's only field.
// A message is text for people, so a reference that cannot be resolved stays as it is.
func Quote(message string, document map[string]any) string {
	r := resolver{document: document, lenient: true}
	for field := range document {
		r.top = "/" + field
	}
	out, _ := r.text(message, "/message")
	if s, ok := out.(string); ok {
		return s
	}
	return plain(out)
}

type resolver struct {
	document any
	top      string // where absolute paths start
	lenient  bool   // references that cannot be resolved stay as they are
	hops     int    // references that are being followed
	made     int    // bytes of text created so far
}

// value resolves the references in the value at the place at; changed reports whether there were any.
func (r *resolver) value(v any, at string, depth int) (out any, changed bool, err error) {
	if depth > budget.MaxDepth {
		return nil, false, fmt.Errorf("the pattern is nested more than %d levels deep", budget.MaxDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		var out map[string]any
		for _, k := range slices.Sorted(maps.Keys(v)) {
			x, changed, err := r.value(v[k], path.Join(at, k), depth+1)
			if err != nil {
				return nil, false, err
			}
			if !changed {
				continue
			}
			if out == nil {
				out = maps.Clone(v)
			}
			out[k] = x
		}
		if out != nil {
			return out, true, nil
		}
	case []any:
		var out []any
		for i, e := range v {
			x, changed, err := r.value(e, path.Join(at, strconv.Itoa(i)), depth+1)
			if err != nil {
				return nil, false, err
			}
			if !changed {
				continue
			}
			if out == nil {
				out = slices.Clone(v)
			}
			out[i] = x
		}
		if out != nil {
			return out, true, nil
		}
	case string:
		if strings.Contains(v, "$(") {
			out, err := r.text(v, at)
			return out, err == nil, err
		}
	}
	return v, false, nil
}

// text resolves the references in s, a string at the place at.
func (r *resolver) text(s, at string) (any, error) {
	var b strings.Builder
	for rest := s; ; {
		i := strings.Index(rest, "$(")
		if i < 0 {
			b.WriteString(rest)
			return b.String(), nil
		}
		end := closing(rest[i:])
		if end < 0 {
			b.WriteString(rest)
			return b.String(), nil
		}
		ref := rest[i : i+end]
		switch {
		case i > 0 && rest[i-1] == '\\':
			b.WriteString(rest[:i-1])
			b.WriteString(ref)
		case strings.ContainsAny(ref, " \t\n") || ref == "$()":
			b.WriteString(rest[:i]) // shell text, not a path
			b.WriteString(ref)
		default:
			v, err := r.reference(ref, at)
			if err != nil && r.lenient {
				v, err = ref, nil
			}
			if err != nil {
				return nil, err
			}
			if ref == s {
				return v, nil
			}
			text := plain(v)
			r.made += len(text) + 1
			b.WriteString(rest[:i])
			b.WriteString(text)
		}
		rest = rest[i+end:]
	}
}

// closing returns the length of the reference $(…) at the beginning of s; parentheses inside, as in anchors, must pair up.
// It is negative if the reference is not closed.
func closing(s string) int {
	open := 0
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// reference returns the value of the reference ref, written $(…) at the place at.
func (r *resolver) reference(ref, at string) (any, error) {
	if r.hops++; r.hops > maxHops || r.made > maxText {
		return nil, fmt.Errorf("NotResolvedReferenceErr,reference %s not resolved at path %s", ref, at)
	}
	defer func() { r.hops-- }()
	target, operator := ref[2:len(ref)-1], ""
	for _, o := range []string{">=", "<=", ">", "<", "!"} {
		if rest, ok := strings.CutPrefix(target, o); ok {
			target, operator = rest, o
			break
		}
	}
	if strings.HasPrefix(target, "/") {
		target = r.top + target
	} else {
		target = path.Join(at, target)
	}
	v, ok := lookup(r.document, target)
	if !ok {
		return nil, fmt.Errorf("NotResolvedReferenceErr,reference %s not resolved at path %s", ref, at)
	}
	if v == nil {
		return nil, fmt.Errorf("got nil resolved variable %s at path %s", ref, at)
	}
	if s, isText := v.(string); isText && strings.Contains(s, "$(") {
		resolved, err := r.text(s, path.Clean(target))
		if err != nil {
			return nil, err
		}
		v = resolved
	}
	if operator == "" {
		return v, nil
	}
	return operator + plain(v), nil
}

// lookup finds the value at the slash-separated place below v.
func lookup(v any, place string) (any, bool) {
	for _, step := range strings.Split(strings.Trim(path.Clean(place), "/"), "/") {
		if step == "" {
			continue
		}
		switch c := v.(type) {
		case map[string]any:
			next, ok := member(c, step)
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(c) {
				return nil, false
			}
			v = c[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// member finds key in m, with or without an anchor around it.
func member(m map[string]any, key string) (any, bool) {
	if v, ok := m[key]; ok {
		return v, true
	}
	_, bare := parseKey(key)
	for _, kind := range []anchorKind{noAnchor, condition, equality, existence, negation, global, addition} {
		if v, ok := m[decorate(kind, bare)]; ok {
			return v, true
		}
	}
	return nil, false
}

// plain returns v as a part of a longer text: strings unchanged, everything else as JSON.
func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return value.JSON(v)
}
