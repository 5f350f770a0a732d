package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/browser"
	"ephor.invalid/ephor/internal/dashboard"
	"ephor.invalid/ephor/internal/policy"
)

// The page of exceptions: the table, the ends as a time line, filters by owner, namespace, policy and state, stale and pending ones.
func TestExceptionsPage(t *testing.T) {
	now := time.Now().UTC()
	one := func(namespace, name, policyName, owner string, ends time.Duration) string {
		annotations := map[string]string{"exceptions.ephor.dev/reason": "why " + name}
		if owner != "" {
			annotations["exceptions.ephor.dev/owner"] = owner
		}
		if ends != 0 {
			annotations["exceptions.ephor.dev/expires-at"] = now.Add(ends).Format(time.RFC3339)
		}
		text, err := json.Marshal(map[string]any{
			"apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": map[string]any{"name": name, "namespace": namespace, "annotations": annotations},
			"spec": map[string]any{"exceptions": []any{map[string]any{"policyName": policyName, "ruleNames": []string{"r"}}}, "match": map[string]any{"any": []any{map[string]any{"resources": map[string]any{"kinds": []string{"Pod"}, "names": []string{name}}}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n---\n"
	}
	const day = 24 * time.Hour
	cluster.Namespace(t, "exc-shop")
	cluster.Namespace(t, "exc-billing")
	cluster.Must(t, one("exc-shop", "needed", "exc-p", "team-a", 90*day)+one("exc-shop", "soon", "exc-p", "team-a", 3*day)+one("exc-billing", "waits", "exc-q", "team-b", 0)+
		one("exc-billing", "<b>bold</b>"[3:7], "exc-q", "", 0), "create", "-f", "-")
	cluster.Must(t, "", "patch", "policyexceptions.kyverno.io", "needed", "-n", "exc-shop", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status":{"use":{"at":%[1]q,"last":%[1]q,"days":[{"day":%[2]q,"requests":12}],"rules":["exc-p/r"]},"objects":{"at":%[1]q,"exempt":3,"needed":2,"unneeded":1}}}`,
		now.Format(time.RFC3339), now.Format("2006-01-02")))
	uid := cluster.Must(t, "", "get", "policyexceptions.kyverno.io", "waits", "-n", "exc-billing", "-o", "jsonpath={.metadata.uid}")

	s := serve(t, false, func(o *dashboard.Options) {
		evaluating(t, o)
		o.Pending = func() []*policy.Exception { return []*policy.Exception{{UID: uid}} }
	})
	ready(t, s.url, "", func(int) bool { return true })
	b := open(t, s.url+"#page=exceptions")
	b.Until(loaded)
	if got := pages(b); got != "Reports, Exceptions" {
		t.Errorf("the pages: %q", got)
	}
	rows := func(want ...string) {
		t.Helper()
		b.Until(loaded)
		b.Until(`return [...document.querySelectorAll("#exceptions tbody th")].map((e) => e.firstChild.data).filter((n) => n.startsWith("exc-")).join(",") === arguments[0]`, strings.Join(want, ","))
	}
	choose := func(id, value string) {
		t.Helper()
		b.Script(nil, `const e = document.getElementById(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event("change"))`, id, value)
	}
	rows("exc-shop/soon", "exc-shop/needed", "exc-billing/bold", "exc-billing/waits")
	said := strings.Join(texts(b, "#exceptions tbody tr"), "\n")
	for _, want := range []string{
		"exc-shop/soon why soon ends soon stale exc-p team-a", "exc-shop/needed why needed in force exc-p team-a", "3 2 ", "12 a day", "exc-billing/waits why waits pending stale exc-q team-b never",
		"exc-billing/bold why bold in force stale exc-q – never",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if got := b.Text("#notices"); !strings.Contains(got, "1 exceptions wait for an approval") {
		t.Errorf("the notices: %s", got)
	}
	var ends []string
	b.Script(&ends, `return [...document.querySelectorAll("#ends circle title")].map((e) => e.textContent)`)
	if len(ends) != 2 || !strings.HasPrefix(ends[0], "exc-shop/soon ends at ") || !strings.HasPrefix(ends[1], "exc-shop/needed ends at ") {
		t.Errorf("the time line: %q", ends)
	}
	accessible(t, b)
	choose("exceptions-owner", "team-a")
	rows("exc-shop/soon", "exc-shop/needed")
	choose("exceptions-state", "stale")
	rows("exc-shop/soon")
	b.Click("#clear-exceptions")
	rows("exc-shop/soon", "exc-shop/needed", "exc-billing/bold", "exc-billing/waits")
	choose("exceptions-namespace", "exc-billing")
	choose("exceptions-policy", "exc-q")
	choose("exceptions-state", "pending")
	rows("exc-billing/waits")
	b.Script(nil, `document.querySelector("#to-reports").focus()`)
	b.Type("#to-reports", browser.Enter)
	b.Until(`return location.hash === ""`)
}
