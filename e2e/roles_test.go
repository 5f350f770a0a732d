package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"ephor.invalid/ephor/internal/devcluster"
)

const rolesPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: roles}
spec:
  background: false
  rules:
  - name: cluster-role
    match: {any: [{resources: {kinds: [Secret]}, clusterRoles: [shop-admin]}]}
    validate: {failureAction: Enforce, message: "{{ request.roles }} {{ request.clusterRoles }}", deny: {}}
  - name: role
    match: {any: [{resources: {kinds: [Secret]}, roles: ["roles-a:reader"]}]}
    validate: {failureAction: Enforce, message: "{{ request.roles }} {{ request.clusterRoles }}", deny: {}}
`

// lists returns the number of lists and gets of role bindings that the API server has answered.
func lists(t *testing.T) int {
	t.Helper()
	n := 0
	for _, m := range regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="(?:cluster)?rolebindings".*verb="(?:LIST|GET)".*\} ([0-9.e+]+)$`).FindAllStringSubmatch(must(t, "", "get", "--raw", "/metrics"), -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		n += int(v)
	}
	return n
}

// The roles of a requester come from an index of the bindings, which follows the cluster: hundreds of reviews send no requests to the API
// server.
func TestRolesComeFromAnIndex(t *testing.T) {
	var objects strings.Builder
	for i := range 100 {
		fmt.Fprintf(&objects, "---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: other-%d, namespace: roles-a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: shop-admin}, subjects: [{kind: User, name: other-%d, apiGroup: rbac.authorization.k8s.io}]}\n", i, i)
	}
	must(t, "{apiVersion: v1, kind: Namespace, metadata: {name: roles-a}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: roles-b}}\n", "apply", "-f", "-")
	t.Cleanup(func() {
		if _, err := cluster.Kubectl(context.Background(), nil, "delete", "namespace", "roles-a", "roles-b", "--wait=false"); err != nil {
			t.Error(err)
		}
	})
	must(t, objects.String()+`
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: jane, namespace: roles-a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: shop-admin}, subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: team, namespace: roles-a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}, subjects: [{kind: Group, name: readers, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: robot}]}
`, "create", "-f", "-")
	applyPolicies(t, policyFile(t, rolesPolicy))

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // TLS verification is not tested here
	review := func(user, group, namespace string) (message string) {
		t.Helper()
		body := fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE","name":"s","namespace":%q,"kind":{"version":"v1","kind":"Secret"},"resource":{"version":"v1","resource":"secrets"},`+
			`"userInfo":{"username":%q,"groups":[%q]},"object":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":%[1]q}}}}`, namespace, user, group)
		path, err := cluster.Ephor.WebhookPath(t.Context(), devcluster.Admission, "/validate/fail")
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Post("https://"+replica.Addr+path, "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var out admissionv1.AdmissionReview
		if err := json.NewDecoder(res.Body).Decode(&out); err != nil || out.Response == nil {
			t.Fatalf("%d %v", res.StatusCode, err)
		}
		if out.Response.Allowed {
			return ""
		}
		return out.Response.Result.Message
	}
	eventually(t, func() error { // the index exists after the first policy that needs roles
		if review("jane", "x", "roles-a") == "" {
			return fmt.Errorf("jane is not known")
		}
		return nil
	})
	before := lists(t)
	for i := range 300 {
		for _, c := range []struct{ user, group, namespace, want string }{
			{"jane", "x", "roles-a", `[] ["shop-admin"]`},
			{"jane", "x", "roles-b", ""}, // a ClusterRole in a RoleBinding applies in its namespace only
			{"jane", "readers", "roles-b", `["roles-a:reader"] []`},
			{"system:serviceaccount:roles-a:robot", "x", "roles-b", `["roles-a:reader"] []`},
			{"system:serviceaccount:roles-b:robot", "x", "roles-a", ""},
			{fmt.Sprint("other-", i%100), "x", "roles-a", `[] ["shop-admin"]`},
			{"nobody", "nothing", "roles-a", ""},
		} {
			if got := review(c.user, c.group, c.namespace); (got == "") != (c.want == "") || !strings.Contains(strings.ReplaceAll(got, `\`, ""), c.want) {
				t.Fatalf("%+v: %q", c, got)
			}
		}
	}
	if after := lists(t); after-before > 5 { // other clients may read bindings too
		t.Errorf("2,100 reviews made the API server answer %d lists of bindings", after-before)
	}
	must(t, "", "delete", "rolebinding", "jane", "-n", "roles-a")
	eventually(t, func() error {
		if got := review("jane", "x", "roles-a"); got != "" {
			return fmt.Errorf("a binding that is gone still counts: %s", got)
		}
		return nil
	})
}
