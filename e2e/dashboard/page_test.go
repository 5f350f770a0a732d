package dashboard

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	policyreport "github.com/ephor-dev/ephor/api/policyreport/v1alpha2"
	"github.com/ephor-dev/ephor/e2e/browser"
	"github.com/ephor-dev/ephor/internal/dashboard"
)

// open starts a browser and opens the page. Without a browser the test is skipped, unless EPHOR_UI says that there has to be one.
func open(t *testing.T, url string) *browser.Browser {
	t.Helper()
	if err := browser.Available(); err != nil && os.Getenv("EPHOR_UI") == "" {
		t.Skip(err)
	}
	b := browser.Start(t)
	b.Size(1360, 1250)
	b.Open(url)
	return b
}

const loaded = `return document.querySelector("#results tbody tr, #results .empty") !== null && !document.querySelector("#content").hidden`

// calm fails the test when the page made the browser complain: a mistake in a script, or something that the
// Content-Security-Policy refuses.
func calm(t *testing.T, b *browser.Browser, expected ...string) {
	t.Helper()
entries:
	for _, e := range b.Console() {
		for _, text := range expected {
			if strings.Contains(e.Message, text) {
				continue entries
			}
		}
		t.Errorf("the console says %s: %s", e.Level, e.Message)
	}
}

// shop is a cluster that a team is about to put in order.
func shop() (before, after []any) {
	policies := []struct{ name, rule, severity, message string }{
		{"disallow-privileged-containers", "privileged-containers", "high", "validation error: Privileged mode is disallowed. The fields spec.containers[*].securityContext.privileged and " +
			"spec.initContainers[*].securityContext.privileged must be unset or set to `false`. rule privileged-containers failed at path /spec/containers/0/securityContext/privileged/"},
		{"disallow-latest-tag", "validate-image-tag", "medium", "validation error: Using a mutable image tag e.g. 'latest' is not allowed. rule validate-image-tag failed at path /spec/containers/0/image/"},
		{"require-requests-limits", "validate-resources", "medium", "validation error: CPU and memory resource requests and memory limits are required for containers. rule validate-resources failed at path /spec/containers/0/resources/limits/"},
		{"require-labels", "check-for-labels", "low", "validation error: The label `app.kubernetes.io/name` is required. rule check-for-labels failed at path /metadata/labels/app.kubernetes.io/name/"},
		{"require-run-as-nonroot", "run-as-non-root", "high", "validation error: Running as root is not allowed. rule run-as-non-root failed at path /spec/securityContext/runAsNonRoot/"},
		{"restrict-image-registries", "validate-registries", "critical", "validation error: Unknown image registry. rule validate-registries failed at path /spec/containers/0/image/"},
		{"require-probes", "validate-probes", "", "validation error: Liveness and readiness probes are required. rule validate-probes failed at path /spec/containers/0/livenessProbe/"},
	}
	teams := []string{"billing", "checkout", "data-platform", "frontend", "identity", "monitoring", "search"}
	report := func(team, app, kind string, n, fixed int) any {
		var results []policyreport.Result
		for i, p := range policies {
			status, message := "pass", "validation rule '"+p.rule+"' passed."
			switch seed := n*7 + i*5; {
			case i == 6 && seed%3 == 0:
				status, message = "skip", "rule is skipped due to policy exception shop/legacy"
			case i == 3 && seed%4 == 0:
				status, message = "warn", p.message
			case i == 5 && seed%19 == 3:
				status, message = "error", "failed to load context: failed to fetch data for APICall: the server is currently unable to handle the request"
			case (seed+fixed*3)%11 < 2-fixed:
				status, message = "fail", p.message
			}
			results = append(results, result(p.name, p.rule, status, p.severity, message))
		}
		return newReport(team, kind, app, results...)
	}
	apps := []string{"api", "worker", "gateway", "cron", "cache", "web"}
	n := 0
	for _, team := range teams {
		for _, app := range apps {
			for _, kind := range []string{"Deployment", "Pod"} {
				n++
				name := app
				if kind == "Pod" {
					name = fmt.Sprintf("%s-6f7c9d%02d", app, n%89)
				}
				before = append(before, report(team, name, kind, n, 0))
				if n%2 == 0 || team == "frontend" {
					after = append(after, report(team, name, kind, n, 1))
				}
			}
		}
	}
	for _, node := range []string{"billing", "sandbox"} {
		before = append(before, newReport("", "Namespace", node, result("require-ns-labels", "owner", map[string]string{"billing": "pass", "sandbox": "fail"}[node], "low",
			"validation error: The label `owner` is required for Namespaces. rule owner failed at path /metadata/labels/owner/")))
	}
	return before, after
}

func TestPage(t *testing.T) {
	namespaces(t, "billing", "checkout", "data-platform", "frontend", "identity", "monitoring", "search")
	before, after := shop()
	apply(t, before...)
	const speed = 400
	started := time.Now()
	s := serve(t, false, func(o *dashboard.Options) {
		o.Sample = 250 * time.Millisecond
		o.Now = func() time.Time { return started.Add(speed*(time.Since(started)) - 3*time.Hour) }
	})
	ready(t, s.url, "", func(n int) bool { return n == len(before) })
	time.Sleep(2 * time.Second)
	third := len(after) / 3
	for _, part := range [][]any{after[:third], after[third : 2*third], after[2*third:]} {
		cluster.Must(t, manifest(t, part...), "apply", "-f", "-")
		time.Sleep(3 * time.Second)
	}
	b := open(t, s.url)
	b.Until(loaded)
	calm(t, b)
	if path := os.Getenv("EPHOR_SCREENSHOT"); path != "" {
		if err := os.WriteFile(path, b.Screenshot(), 0o644); err != nil {
			t.Fatal(err)
		}
		b.Dark(true)
		_ = os.WriteFile(path+".dark.png", b.Screenshot(), 0o644)
		b.Size(420, 1600)
		_ = os.WriteFile(path+".small.png", b.Screenshot(), 0o644)
		b.Size(1360, 2600)
		_ = os.WriteFile(path+".long.png", b.Screenshot(), 0o644)
	}
}
