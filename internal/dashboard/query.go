package dashboard

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/compliance"
)

// maxQuery bounds the text of a query, in bytes. It has room for a position with the longest names, each byte of them escaped.
const maxQuery = 16 << 10

// query selects results.
type query struct {
	sees   func(namespace string) bool // reports in the namespace; "" for cluster-scoped reports
	filter compliance.Filter
	// More conditions in addition to the filter: results for cluster-scoped objects, for one rule, and for resources whose
	// namespace/Kind/name contains a text, in lower case.
	clusterOnly bool
	rule        string
	resource    string
}

// wantsResource reports whether the query may select results for the resource of an entry.
func (q *query) wantsResource(e *resourceResults) bool {
	if q.clusterOnly && e.namespace.Value() != "" {
		return false
	}
	return q.resource == "" || strings.Contains(strings.ToLower(compliance.Resource{Kind: e.kind.Value(), Namespace: e.namespace.Value(), Name: e.name}.String()), q.resource)
}

// wants reports whether the query selects the result.
func (q *query) wants(r *compliance.Result) bool {
	return (q.rule == "" || q.rule == r.Rule) && q.filter.Match(r)
}

// parseQuery parses the parameters of a request: those of the filter, which may be repeated like the flags of `ephor report`; rule,
// resource and scope=cluster; and the ones named in more. Other parameters are errors: after a misspelling, the client would misinterpret
// the answer.
func parseQuery(values url.Values, more ...string) (*query, error) {
	q := &query{}
	for name, given := range values {
		if len(given) > 1 && !slices.Contains([]string{"policy", "namespace", "kind", "source", "severity", "result"}, name) {
			return nil, fmt.Errorf("the parameter %s may be given once", name)
		}
		switch name {
		case "policy":
			q.filter.Policies = given
		case "namespace":
			q.filter.Namespaces = given
		case "kind":
			q.filter.Kinds = given
		case "source":
			q.filter.Sources = given
		case "severity":
			q.filter.Severities = given
		case "result":
			for _, s := range given {
				q.filter.Results = append(q.filter.Results, compliance.Status(s))
			}
		case "rule":
			q.rule = given[0]
		case "resource":
			q.resource = strings.ToLower(given[0])
		case "scope":
			if given[0] != "cluster" {
				return nil, fmt.Errorf("the parameter scope may only be cluster")
			}
			q.clusterOnly = true
		default:
			if !slices.Contains(more, name) {
				return nil, fmt.Errorf("there is no parameter %q; there are policy, namespace, kind, source, severity, result, rule, resource, scope", name)
			}
		}
	}
	for _, s := range q.filter.Severities {
		if s != compliance.NoSeverity && !slices.Contains(compliance.Severities, s) {
			return nil, fmt.Errorf("%q is not one of %s, %s", s, strings.Join(compliance.Severities, ", "), compliance.NoSeverity)
		}
	}
	for _, s := range q.filter.Results {
		if !slices.Contains(compliance.Statuses, s) {
			return nil, fmt.Errorf("%q is not one of pass, fail, warn, error, skip", s)
		}
	}
	return q, nil
}
