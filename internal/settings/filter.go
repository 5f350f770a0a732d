package settings

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/wildcard"
)

// filters are the resourceFilters, indexed so that a request checks only those for its kind: the default ConfigMap has about sixty, of
// which five have a wildcard for the kind.
type filters struct {
	byKind  map[string][]filter
	anyKind []filter
}

// filter is one [kind,namespace,name] group.
type filter struct {
	group, version, kind, sub wildcard.Pattern
	namespace, name           wildcard.Pattern
	whole                     bool // all objects of the kind
}

// neverEvaluated are kinds that are always filtered: the engine's own internal objects.
var neverEvaluated = map[string]bool{
	"AdmissionReport": true, "ClusterAdmissionReport": true,
	"BackgroundScanReport": true, "ClusterBackgroundScanReport": true, "UpdateRequest": true,
}

// Filtered reports whether the resourceFilters exclude the resource from every policy. gvk is the kind of the main
// resource, sub the subresource or empty.
func (s *Settings) Filtered(gvk schema.GroupVersionKind, sub, namespace, name string) bool {
	if neverEvaluated[gvk.Kind] {
		return true
	}
	return anyMatches(s.filters.byKind[gvk.Kind], gvk, sub, namespace, name) ||
		anyMatches(s.filters.anyKind, gvk, sub, namespace, name)
}

func anyMatches(fs []filter, gvk schema.GroupVersionKind, sub, namespace, name string) bool {
	for i := range fs {
		if fs[i].matches(gvk, sub, namespace, name) {
			return true
		}
	}
	return false
}

func (f *filter) matches(gvk schema.GroupVersionKind, sub, namespace, name string) bool {
	return f.covers(gvk, namespace, name) && f.selects(gvk, sub)
}

// covers reports whether the filter matches the namespace and the name. A filter on a namespace covers the Namespace object itself, too.
func (f *filter) covers(gvk schema.GroupVersionKind, namespace, name string) bool {
	return f.namespace.Match(namespace) && f.name.Match(name) ||
		gvk.Kind == "Namespace" && gvk.Group == "" && f.namespace.Match(name)
}

// Spared reports whether the resourceFilters protect an object from cleanup policies. Filters on a whole kind count only if they include
// subresources (`[ReplicaSet,*,*] [ReplicaSet/?*,*,*]`, `[*/*,kube-system,*]`): users also filter a kind that is too busy for admission,
// such as Event, which they do want to clean up.
func (s *Settings) Spared(gvk schema.GroupVersionKind, namespace, name string) bool {
	for _, fs := range [][]filter{s.filters.byKind[gvk.Kind], s.filters.anyKind} {
		for i := range fs {
			f := &fs[i]
			if f.covers(gvk, namespace, name) && (f.selects(gvk, gvk.Kind) || !f.whole && f.selects(gvk, "")) {
				return true
			}
		}
	}
	return false
}

func (f *filter) selects(gvk schema.GroupVersionKind, sub string) bool {
	return f.kind.Match(gvk.Kind) && f.sub.Match(sub) && f.group.Match(gvk.Group) && f.version.Match(gvk.Version)
}

// parseFilters parses the groups in brackets and ignores text between them. An unreadable group is an error of type partly: the others
// still apply, since without them policies would evaluate objects that keep the cluster running.
func parseFilters(text string) (filters, error) {
	out := filters{byKind: map[string][]filter{}}
	var mistakes partly
	for rest := text; ; {
		open := strings.IndexByte(rest, '[')
		if open < 0 {
			break
		}
		rest = rest[open+1:]
		end := strings.IndexAny(rest, "[]")
		if end < 0 || rest[end] == '[' {
			if end < 0 {
				end = len(rest)
			}
			mistakes = append(mistakes, fmt.Sprintf("the filter [%s has no closing bracket", strings.TrimSpace(rest[:end])))
			rest = rest[end:]
			continue
		}
		f, err := parseFilter(rest[:end])
		rest = rest[end+1:]
		if err != nil {
			mistakes = append(mistakes, err.Error())
			continue
		}
		if kind, literal := f.kind.Literal(); literal {
			out.byKind[kind] = append(out.byKind[kind], f)
		} else {
			out.anyKind = append(out.anyKind, f)
		}
	}
	if mistakes != nil {
		return out, mistakes
	}
	return out, nil
}

// parseFilter parses the text between two brackets.
func parseFilter(group string) (filter, error) {
	parts := strings.Split(group, ",")
	if len(parts) > 3 {
		return filter{}, fmt.Errorf("the filter [%s] has more than three parts: kind,namespace,name", group)
	}
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	parts = append(parts, "", "")
	f, err := parseKind(parts[0])
	f.namespace, f.name = wildcard.Compile(parts[1]), wildcard.Compile(parts[2])
	f.whole = parts[1] == "*" && parts[2] == "*"
	return f, err
}

// parseKind parses the kind: [group/][version/]Kind[/subresource], each with wildcards; Kind.subresource is an old notation. This is the grammar
// of match blocks, but their package is two floors higher and has another type.
func parseKind(text string) (filter, error) {
	parts := strings.Split(text, "/")
	if kind, sub, old := strings.Cut(parts[len(parts)-1], "."); old {
		parts = append(parts[:len(parts)-1], kind, sub)
	}
	group, version, kind, sub := "*", "*", "", ""
	switch n := len(parts); {
	case n == 1:
		kind = parts[0]
	case n == 2 && parts[0] == "*" && parts[1] == "*":
		kind, sub = "*", "*"
	case n == 2 && isVersion(parts[0]) && !(parts[0] == "*" && startsLower(parts[1])):
		version, kind = parts[0], parts[1]
	case n == 2:
		kind, sub = parts[0], parts[1]
	case n == 3 && isVersion(parts[0]) && !leadingGroup(parts):
		version, kind, sub = parts[0], parts[1], parts[2]
	case n == 3 && isVersion(parts[1]):
		group, version, kind = parts[0], parts[1], parts[2]
	case n == 4 && isVersion(parts[1]):
		group, version, kind, sub = parts[0], parts[1], parts[2], parts[3]
	default:
		return filter{}, fmt.Errorf("%q is not a kind: write Kind, version/Kind or group/version/Kind, each with or without /subresource", text)
	}
	return filter{
		group: wildcard.Compile(group), version: wildcard.Compile(version),
		kind: wildcard.Compile(kind), sub: wildcard.Compile(sub),
	}, nil
}

// leadingGroup decides for three pieces that begin with `*` or a version: `*/v1/Kind` and `*/*/Kind` begin with a group, `v1/Kind/sub` and `*/*/*`
// with a version.
func leadingGroup(parts []string) bool {
	return parts[0] == "*" && isVersion(parts[1]) && (parts[1] != "*" || parts[2] != "*" && !startsLower(parts[2]))
}

// isVersion reports whether s looks like an API version: `*` or v1, v2beta1, v1alpha3.
func isVersion(s string) bool {
	if s == "*" {
		return true
	}
	digits, ok := strings.CutPrefix(s, "v")
	if !ok || digits == "" {
		return false
	}
	rest := strings.TrimLeft(digits, "0123456789")
	if len(rest) == len(digits) {
		return false
	}
	if rest == "" {
		return true
	}
	for _, stage := range []string{"alpha", "beta"} {
		if n, ok := strings.CutPrefix(rest, stage); ok && n != "" && strings.Trim(n, "0123456789") == "" {
			return true
		}
	}
	return false
}

func startsLower(s string) bool { return s != "" && s[0] >= 'a' && s[0] <= 'z' }
