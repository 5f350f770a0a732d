package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/compliance"
)

// account creates a service account in the namespace and returns its token. rights are the namespaces whose reports it may list: "*" for all
// reports, "" for cluster-scoped reports.
func account(t *testing.T, namespace, name string, rights ...string) string {
	t.Helper()
	subject := []any{map[string]any{"kind": "ServiceAccount", "namespace": namespace, "name": name}}
	objects := []any{map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": name, "namespace": namespace}}}
	for i, place := range rights {
		kind, binding, resource, meta := "ClusterRole", "ClusterRoleBinding", "policyreports", map[string]any{"name": fmt.Sprintf("dashboard-%s-%d", name, i)}
		switch place {
		case "*":
		case "":
			resource = "clusterpolicyreports"
		default:
			kind, binding, meta["namespace"] = "Role", "RoleBinding", place
		}
		objects = append(objects,
			map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": meta, "rules": []any{
				map[string]any{"apiGroups": []any{"wgpolicyk8s.io"}, "resources": []any{resource}, "verbs": []any{"list"}},
			}},
			map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": binding, "metadata": meta, "subjects": subject,
				"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": meta["name"]}})
	}
	apply(t, objects...)
	return strings.TrimSpace(cluster.Must(t, "", "create", "token", name, "-n", namespace))
}

// seen returns the namespaces of the summary, or the status of the response if there is no summary.
func seen(t testing.TB, base, token, query string) string {
	t.Helper()
	var s compliance.Summary
	if status := get(t, base, "/api/v1/report"+query, token, &s); status != http.StatusOK {
		return fmt.Sprint(status)
	}
	names := []string{}
	for _, l := range s.ByNamespace {
		if l.Name == "" || strings.HasPrefix(l.Name, "access-") {
			names = append(names, l.Name)
		}
	}
	return strings.Join(names, ",")
}

// Users who may list reports see them, according to TokenReview and SubjectAccessReview of a real API server; other users see none.
func TestAccess(t *testing.T) {
	namespaces(t, "access-a", "access-b")
	apply(t,
		newReport("access-a", "Pod", "one", result("p", "r", "fail", "high", "secret of a")),
		newReport("access-b", "Pod", "one", result("p", "r", "fail", "high", "secret of b")),
		newReport("", "Node", "access-node", result("p", "r", "fail", "high", "secret of the cluster")))
	s := serve(t, true, nil)
	tokens := map[string]string{"nobody": "no-token-at-all", "": ""}
	for name, rights := range map[string][]string{
		"all": {"*", ""}, "namespaces": {"*"}, "a": {"access-a"}, "both": {"access-a", "access-b"}, "cluster": {""}, "none": nil,
	} {
		tokens[name] = account(t, "access-a", name, rights...)
	}
	ready(t, s.url, tokens["all"], func(n int) bool { return n >= 3 })
	for _, c := range []struct{ who, query, want, messages string }{
		{"all", "", ",access-a,access-b", "a b the cluster"},
		{"namespaces", "", "access-a,access-b", "a b"},
		{"a", "", "access-a", "a"},
		{"a", "?namespace=access-a", "access-a", "a"},
		{"a", "?namespace=access-b", "", ""},
		{"a", "?namespace=access-*", "access-a", "a"},
		{"a", "?scope=cluster", "", ""},
		{"both", "", "access-a,access-b", "a b"},
		{"cluster", "", "", "the cluster"}, // the name of cluster-scoped resources' namespace is empty
		{"none", "", "", ""},
		{"nobody", "", "401", ""},
		{"", "", "401", ""},
	} {
		if got := seen(t, s.url, tokens[c.who], c.query); got != c.want {
			t.Errorf("%q sees of %q %q, want %q", c.who, c.query, got, c.want)
		}
		var list struct{ Results []compliance.Result }
		separator := "?"
		if c.query != "" {
			separator = "&"
		}
		get(t, s.url, "/api/v1/results"+c.query+separator+"result=fail&policy=p", tokens[c.who], &list)
		var messages []string
		for _, r := range list.Results {
			messages = append(messages, strings.TrimPrefix(r.Message, "secret of "))
		}
		slices.Sort(messages)
		if got := strings.Join(messages, " "); got != c.messages {
			t.Errorf("%q reads of %q %q, want %q", c.who, c.query, got, c.messages)
		}
	}

	// A revoked right is noticed within seconds, and so is a deleted account.
	cluster.Must(t, "", "delete", "rolebinding", "-n", "access-a", "dashboard-a-0")
	suite.Eventually(t, func() error {
		s.turn(time.Minute)
		if got := seen(t, s.url, tokens["a"], ""); got != "" {
			return fmt.Errorf("a still sees %q", got)
		}
		return nil
	})
	cluster.Must(t, "", "delete", "serviceaccount", "-n", "access-a", "both")
	suite.Eventually(t, func() error {
		s.turn(time.Minute)
		if got := seen(t, s.url, tokens["both"], ""); got != "401" {
			return fmt.Errorf("who is gone sees %q", got)
		}
		return nil
	})
	// A token for another audience is rejected.
	seconds := int64(3600)
	other, err := cluster.Client.CoreV1().ServiceAccounts("access-a").CreateToken(context.Background(), "all", tokenFor("https://elsewhere.example", seconds), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := seen(t, s.url, other.Status.Token, ""); got != "401" {
		t.Errorf("a token with another audience sees %q", got)
	}
	for who, token := range tokens {
		if token != "" && strings.Contains(s.log.String(), token) {
			t.Errorf("the log holds the token of %s", who)
		}
	}
}

func tokenFor(audience string, seconds int64) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: &seconds}}
}

// Pages of results continue where the previous page ended, without gaps and duplicates, while reports are created and deleted.
func TestResultsContinue(t *testing.T) {
	namespaces(t, "many")
	var objects []any
	for i := range 60 {
		objects = append(objects, newReport("many", "Pod", fmt.Sprintf("pod-%02d", i), result("p", "r", "fail", "high", fmt.Sprint("message ", i))))
	}
	apply(t, objects...)
	s := serve(t, false, nil)
	ready(t, s.url, "", func(n int) bool { return n >= 60 })
	read := map[string]int{}
	after, pages := "", 0
	for {
		var list struct {
			Results []compliance.Result
			Total   int
			Next    any
		}
		path := "/api/v1/results?namespace=many&result=fail" + after
		if status := get(t, s.url, path, "", &list); status != http.StatusOK {
			t.Fatal(status)
		}
		for _, r := range list.Results {
			read[r.Message]++
		}
		pages++
		if list.Next == nil {
			break
		}
		after = "&after=" + url.QueryEscape(manifestOf(t, list.Next))
		if pages == 1 { // the last result of the page is deleted; the next page begins after it anyway
			cluster.Must(t, "", "delete", "policyreport", "-n", "many", fmt.Sprintf("pod-%x", list.Results[len(list.Results)-1].Resource.Name))
			suite.Eventually(t, func() error {
				var left compliance.Summary
				if get(t, s.url, "/api/v1/report?namespace=many", "", &left); left.Totals.Fail != 59 {
					return fmt.Errorf("%d failures", left.Totals.Fail)
				}
				return nil
			})
		}
	}
	if len(read) != 60 || pages != 3 {
		t.Errorf("%d messages in %d pages", len(read), pages)
	}
	for message, n := range read {
		if n != 1 {
			t.Errorf("%q was read %d times", message, n)
		}
	}
}
