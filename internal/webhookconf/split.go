package webhookconf

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// The path of a group's webhook names its policies, and each request contains the path. Therefore a group with long names is divided.
const (
	// mixedNames is the maximum size of the names in a part whose policies have different rules, in bytes, so that requests for one kind
	// do not contain the names of policies for many others.
	mixedNames = 2 << 10
	// equalNames is the maximum size of the names in a part whose policies have the same rules, in bytes. It is well below the
	// server's limit for request headers: with a longer path, every request of the group would fail.
	equalNames = 8 << 10
	// maxRules is the maximum size of the rules in a part whose policies have different rules, in bytes of JSON. A configuration must be small
	// enough to be stored.
	maxRules = 128 << 10
)

// split divides the policies of a group so that no path becomes too long. Policies with the same rules stay together as far as possible,
// so that one request causes one call.
func split(members []groupedPolicy) [][]groupedPolicy {
	byRules, size := map[string][]groupedPolicy{}, 0
	for _, m := range members {
		text, _ := json.Marshal(m.rules)
		if byRules[string(text)] == nil {
			size += len(text)
		}
		byRules[string(text)] = append(byRules[string(text)], m)
	}
	if namesSize(members) <= mixedNames && size <= maxRules {
		return [][]groupedPolicy{members}
	}
	var out [][]groupedPolicy
	var open []groupedPolicy // the current part for policies with different rules
	size = 0                 // of its rules
	for _, rules := range slices.Sorted(maps.Keys(byRules)) {
		equal := byRules[rules]
		slices.SortFunc(equal, func(x, y groupedPolicy) int { return cmp.Compare(x.name, y.name) })
		if namesSize(equal) <= mixedNames {
			if len(open) > 0 && (namesSize(open)+namesSize(equal) > mixedNames || size+len(rules) > maxRules) {
				out, open, size = append(out, open), nil, 0
			}
			open, size = append(open, equal...), size+len(rules)
			continue
		}
		for len(equal) > 0 {
			n, size := 0, 0
			for n < len(equal) && (n == 0 || size+len(equal[n].name)+1 <= equalNames) {
				size += len(equal[n].name) + 1
				n++
			}
			out, equal = append(out, equal[:n]), equal[n:]
		}
	}
	if len(open) > 0 {
		out = append(out, open)
	}
	return out
}

// namesSize returns the length of the names in a path.
func namesSize(members []groupedPolicy) (n int) {
	for _, m := range members {
		n += len(m.name) + 1
	}
	return n
}
