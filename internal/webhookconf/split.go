package webhookconf

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/coverage"
)

// The path of a group's webhook names its policies, and each request contains the path. Therefore a group with long names is divided.
const (
	// maxNames is the maximum size of the names in a part, in bytes. It is well below the server's limit for request headers: with a longer path,
	// every request of the group would fail.
	maxNames = 8 << 10
	// foreignNames is the maximum size of the names in a part with policies about different requests, in bytes, so that requests for one
	// kind do not contain the names of policies for many others.
	foreignNames = 2 << 10
	// maxRules is the maximum size of the rules in a part, in bytes of JSON. A configuration must be small enough to be stored.
	maxRules = 128 << 10
)

// groupPart is a part of a group: the policies of one webhook.
type groupPart struct {
	members      []groupedPolicy
	requests     coverage.Set
	names, rules int // the size of the names, and of the different rules as JSON
}

// hasRoom reports whether more policies fit, if the names may have a size of limit.
func (p *groupPart) hasRoom(names, rules, limit int) bool {
	return p.names+names <= limit && p.rules+rules <= maxRules
}

// split divides the policies of a group so that no path becomes too long. Policies about the same requests stay together as far as possible,
// so that one request causes one call.
func split(members []groupedPolicy) (out [][]groupedPolicy) {
	byRules := map[string][]groupedPolicy{}
	for _, m := range members {
		text, _ := json.Marshal(m.rules)
		byRules[string(text)] = append(byRules[string(text)], m)
	}
	var parts []*groupPart
	for _, rules := range slices.Sorted(maps.Keys(byRules)) {
		equal := byRules[rules]
		slices.SortFunc(equal, func(x, y groupedPolicy) int { return cmp.Compare(x.name, y.name) })
		requests := coverage.Set{}
		requests.AddRules(equal[0].rules)
		for len(equal) > 0 {
			n, names := 0, 0
			for n < len(equal) && (n == 0 || names+len(equal[n].name)+1 <= maxNames) {
				names += len(equal[n].name) + 1
				n++
			}
			// A part about some of the same requests comes first, and may be longer: another one would cost these requests a second call.
			i := slices.IndexFunc(parts, func(p *groupPart) bool { return p.hasRoom(names, len(rules), maxNames) && p.requests.Meets(requests) })
			if i < 0 {
				i = slices.IndexFunc(parts, func(p *groupPart) bool { return p.hasRoom(names, len(rules), foreignNames) })
			}
			if i < 0 {
				i, parts = len(parts), append(parts, &groupPart{requests: coverage.Set{}})
			}
			p := parts[i]
			p.members, p.names, p.rules = append(p.members, equal[:n]...), p.names+names, p.rules+len(rules)
			p.requests.AddRules(equal[0].rules)
			equal = equal[n:]
		}
	}
	for _, p := range parts {
		out = append(out, p.members)
	}
	return out
}
