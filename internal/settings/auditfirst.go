package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// AuditFirstKey is the key of the ConfigMap that lists the policies that audit first.
const AuditFirstKey = "auditFirst"

// AuditFirstName returns the name of a policy in the list: Kind/name or Kind/namespace/name.
func AuditFirstName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + "/" + name
}

// AuditFirstText returns the text of the list.
func AuditFirstText(names map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(names)), ",")
}

// parseAuditFirst parses the list. A wrong name is a mistake, because the policy that it means would not be the one that audits first.
func parseAuditFirst(s *Settings, v string) error {
	names := map[string]bool{}
	var invalid partly
	for _, name := range list(v) {
		parts := strings.Split(name, "/")
		valid := (len(parts) == 2 || len(parts) == 3) && parts[0] != ""
		for _, part := range parts[1:] {
			valid = valid && len(validation.IsDNS1123Subdomain(part)) == 0
		}
		if !valid {
			invalid = append(invalid, fmt.Sprintf("%q is not Kind/name or Kind/namespace/name", name))
			continue
		}
		names[name] = true
	}
	s.AuditFirst = names
	if len(invalid) > 0 {
		return invalid
	}
	return nil
}
