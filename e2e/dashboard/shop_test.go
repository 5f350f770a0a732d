package dashboard

import (
	"fmt"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
)

// teams have one namespace each.
var teams = []string{"billing", "checkout", "data-platform", "frontend", "identity", "monitoring", "search"}

// shop returns the reports of a cluster whose teams correct violations: all reports, and those that improve.
func shop() (before, after []any) {
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
				before = append(before, shopReport(team, kind, name, n, 2))
				if n%2 == 0 || team == "frontend" {
					after = append(after, shopReport(team, kind, name, n, 1))
				}
			}
		}
	}
	owner := "validation error: The label `owner` is required for Namespaces. rule owner failed at path /metadata/labels/owner/"
	before = append(before,
		newReport("", "Namespace", "billing", result("require-ns-labels", "owner", "pass", "low", "validation rule 'owner' passed.")),
		newReport("", "Namespace", "sandbox", result("require-ns-labels", "owner", "fail", "low", owner)))
	return before, after
}

var shopPolicies = []struct{ name, rule, severity, message string }{
	{"disallow-privileged-containers", "privileged-containers", "high", "validation error: Privileged mode is disallowed. The fields spec.containers[*].securityContext.privileged and " +
		"spec.initContainers[*].securityContext.privileged must be unset or set to `false`. rule privileged-containers failed at path /spec/containers/0/securityContext/privileged/"},
	{"disallow-latest-tag", "validate-image-tag", "medium", "validation error: Using a mutable image tag e.g. 'latest' is not allowed. rule validate-image-tag failed at path /spec/containers/0/image/"},
	{"require-requests-limits", "validate-resources", "medium", "validation error: CPU and memory resource requests and memory limits are required for containers. " +
		"rule validate-resources failed at path /spec/containers/0/resources/limits/"},
	{"require-labels", "check-for-labels", "low", "validation error: The label `app.kubernetes.io/name` is required. rule check-for-labels failed at path /metadata/labels/app.kubernetes.io/name/"},
	{"require-run-as-nonroot", "run-as-non-root", "high", "validation error: Running as root is not allowed. rule run-as-non-root failed at path /spec/securityContext/runAsNonRoot/"},
	{"restrict-image-registries", "validate-registries", "critical", "validation error: Unknown image registry. rule validate-registries failed at path /spec/containers/0/image/"},
	{"require-probes", "validate-probes", "", "validation error: Liveness and readiness probes are required. rule validate-probes failed at path /spec/containers/0/livenessProbe/"},
}

// shopReport returns the report about the nth resource. The higher bad is, the more of its results fail.
func shopReport(team, kind, name string, n, bad int) any {
	var results []policyreport.Result
	for i, p := range shopPolicies {
		status, message := "pass", "validation rule '"+p.rule+"' passed."
		switch seed := n*7 + i*5; {
		case i == 6 && seed%3 == 0:
			status, message = "skip", "rule is skipped due to policy exception shop/legacy"
		case i == 3 && seed%4 == 0:
			status, message = "warn", p.message
		case i == 5 && seed%19 == 3:
			status, message = "error", "failed to load context: failed to fetch data for APICall: the server is currently unable to handle the request"
		case (seed+(2-bad)*3)%11 < bad:
			status, message = "fail", p.message
		}
		results = append(results, result(p.name, p.rule, status, p.severity, message))
	}
	return newReport(team, kind, name, results...)
}
