package observe

import (
	"net/http"
	"strings"

	"ephor.invalid/ephor/internal/compile"
	kindnames "ephor.invalid/ephor/internal/kinds"
)

// ClientType is the purpose of a client of the API server. It is the value of the label client_type, unless the requested group determines
// that.
type ClientType string

// The types of clients.
const (
	// KubeClient is the client of the controllers.
	KubeClient ClientType = "kubeclient"
	// DynamicClient reads objects for policies.
	DynamicClient ClientType = "dynamic"
	// MetadataClient watches TTL labels.
	MetadataClient ClientType = "metadata"
	// WorkClient executes the work of policies and also reads our own kinds. Requests for our own kinds count as "kyverno", all others as
	// "dynamic".
	WorkClient ClientType = "work"
)

// RoundTripper returns a function for rest.Config.Wrap that counts the requests of a client to the API server.
func (m *Metrics) RoundTripper(t ClientType) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		if m == nil {
			return next
		}
		return counting{m, string(t), next}
	}
}

type counting struct {
	metrics *Metrics
	client  string
	next    http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if q, ok := queryOf(r, c.client); ok {
		c.metrics.queries.with(q.operation, q.client, q.kind, q.namespace).add(1)
	}
	return c.next.RoundTrip(r)
}

// WrappedRoundTripper gives client-go access to the wrapped RoundTripper.
func (c counting) WrappedRoundTripper() http.RoundTripper { return c.next }

type query struct{ operation, client, kind, namespace string }

// queryOf returns the method and the resource of a request. ok is false for a request without a resource, such as discovery.
func queryOf(r *http.Request, client string) (q query, ok bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default:
		return query{}, false
	}
	// /namespaces/x/pods… is a request for Pods, but /namespaces/x and its subresources are requests for the Namespace.
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		q.namespace, parts = parts[1], parts[2:]
	}
	resource, named, sub := parts[0], len(parts) > 1, ""
	if len(parts) > 2 {
		sub = parts[2]
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		q.operation = "list"
		if named {
			q.operation = "get"
		}
		if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
			q.operation = "watch"
		}
	case http.MethodPost:
		q.operation = "create"
	case http.MethodPut:
		q.operation = "update"
		if sub == "status" {
			q.operation = "update_status"
		}
	case http.MethodPatch:
		q.operation = "patch"
	case http.MethodDelete:
		q.operation = "delete_collection"
		if named {
			q.operation = "delete"
		}
	default:
		return query{}, false
	}
	q.client = clientOf(group, client, r.Header.Get("Accept"))
	q.kind = resource
	if q.client != string(DynamicClient) {
		if kind := kinds[resource]; kind != "" {
			q.kind = kind
		}
	}
	return q, true
}

func clientOf(group, otherwise, accept string) string {
	switch {
	case otherwise == string(DynamicClient):
		return otherwise
	case strings.Contains(accept, "as=PartialObjectMetadata"):
		return "metadata"
	case group == "kyverno.io", strings.HasSuffix(group, ".kyverno.io"):
		return "kyverno"
	case group == "wgpolicyk8s.io", group == "openreports.io":
		return "policyreport"
	case group == "apiextensions.k8s.io":
		return "apiserver"
	case otherwise == string(WorkClient):
		return string(DynamicClient)
	}
	return otherwise
}

// kinds maps the resources that controllers request to kinds, with the names that Kyverno's typed clients use. Other resources keep
// their names, as with Kyverno's dynamic client.
var kinds = withPolicies(map[string]string{
	"secrets": "Secret", "configmaps": "ConfigMap", "namespaces": "Namespace", "pods": "Pod", "events": "Event",
	"serviceaccounts": "ServiceAccount", "leases": "Lease", "deployments": "Deployment",
	"roles": "Role", "rolebindings": "RoleBinding", "clusterroles": "ClusterRole", "clusterrolebindings": "ClusterRoleBinding",
	"subjectaccessreviews": "SubjectAccessReview", "selfsubjectaccessreviews": "SelfSubjectAccessReview",
	"selfsubjectreviews": "SelfSubjectReview", "services": "Service",
	"validatingwebhookconfigurations": "ValidatingWebhookConfiguration", "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
	"customresourcedefinitions": "CustomResourceDefinition", "policyexceptions": "PolicyException",
	"globalcontextentries": "GlobalContextEntry", "updaterequests": "UpdateRequest",
	"ephemeralreports": "EphemeralReport", "clusterephemeralreports": "ClusterEphemeralReport",
	"policyreports": "PolicyReport", "clusterpolicyreports": "ClusterPolicyReport",
})

// withPolicies adds the kinds of policies and related kinds to the table.
func withPolicies(table map[string]string) map[string]string {
	for _, k := range compile.Kinds {
		table[k.Resource] = k.Kind
	}
	for _, f := range compile.Product.Families() {
		for _, c := range f.Companions {
			table[kindnames.Plural(c.Kind)] = c.Kind
		}
	}
	return table
}
