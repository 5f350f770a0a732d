package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/rollout"
)

// step is the expected effect of a block of commands of docs/operating/rollout.md: its exit code, and its output. A step that changes
// nothing is repeated until it succeeds, since reports are written a moment later.
type step struct {
	begins string // of the block, to keep page and test together
	code   int
	says   []string
	once   bool
	then   func() // actions of others after it
}

// TestGuide follows the guide: Audit, the usual commands, `ephor impact` and `ephor rollout` report whose requests would be denied, correct,
// check again, Enforce, a denied creation, `ephor why`, the metric.
func TestGuide(t *testing.T) {
	admission := cluster.Start(t, devcluster.Admission, "--decisions=stdout", "--decisionsRequests", "--decisionsShare=1")
	cluster.Start(t, devcluster.Reports)
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	workloads, err := os.ReadFile(filepath.Join(root, "examples", "rollout", "workloads.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cluster.Apply(t, string(workloads))
	t.Cleanup(func() {
		cluster.Must(t, "", "delete", "clusterpolicy,validatingpolicies.policies.kyverno.io", "require-limits", "--ignore-not-found")
	})
	metrics := prometheus(t, root, admission)
	shell := newShell(t, root, metrics)
	shell.env = append(shell.env, "ADMISSION_LOG="+admission.Log)

	steps := []step{
		{begins: "kubectl apply -f", says: []string{"condition met"}, once: true, then: func() {
			// The policy is in force when its violation is recorded. From then on a user changes the Deployment.
			n := 0
			suite.Until(t, "a request by jane is recorded", func() error {
				n++
				if out, code := shell.output(fmt.Sprintf("kubectl label deployment web -n shop --overwrite try=%d --as jane@example.com --as-group system:masters", n)); code != 0 {
					return fmt.Errorf("%s", out)
				}
				out, _ := shell.output("kubectl logs -n kyverno deploy/kyverno-admission-controller | ephor decisions -f - --verdict violating --user jane@example.com -o csv")
				if !strings.Contains(string(out), "shop/Deployment/web") {
					return fmt.Errorf("%s", out)
				}
				return nil
			})
		}},
		{begins: "kubectl get polr -A -o wide", says: []string{"KIND", "PASS", "FAIL", "Deployment", "ReplicaSet", "Pod"}},
		{begins: "kubectl describe policyreport", says: []string{"every container needs limits", "require-limits"}},
		{begins: "kubectl get policyreport -A -o json | jq", says: []string{`"namespace": "shop"`, `"fail": 1`, `"namespace": "lab"`}},
		{begins: "ephor report --policy", says: []string{"require-limits   3      3 ", "shop        0      3 ", "medium     3      3 ", "fail     medium     require-limits   autogen-limits   shop/Deployment/web"}},
		{begins: "ephor report --fail-on", code: 2, says: []string{"--fail-on is reached: medium (3)"}},
		{begins: "kubectl logs", says: []string{"shop        Deployment/web   storefront", "jane@example.com", "fail (Audit) of policy require-limits, rule autogen-limits"}},
		{begins: "ephor rollout", code: 2, says: []string{"Policy require-limits (Audit)", "shop        Audit   3           3 ", "Deployment/web   storefront   2 ",
			"REQUESTS   REFUSED   WOULD-REFUSE", "autogen-limits   validation error", "Not safe to enforce:", "namespace shop: 3 of 3 resources would be refused",
			"results of requests are violations", "failureActionOverrides can enforce the policy there: lab"}},
		{begins: "kubectl set resources", says: []string{"deployment.apps/web resource requirements updated"}, once: true},
		{begins: "kubectl logs", says: []string{"shop        Audit   3           0 ", "Not counted: 1 ReplicaSet of an earlier revision", "whether everything was evaluated with the current policy", "Safe to enforce."}},
		{begins: "kubectl patch clusterpolicy", says: []string{"patched"}, once: true},
		{begins: "kubectl create deployment", code: 1, says: []string{"denied the request", "resource Deployment/shop/careless was blocked due to the following policies", "every container needs limits"}, once: true},
		{begins: "kubectl logs", says: []string{"refused", "CREATE shop/Deployment/careless by ", ": refused", "policy require-limits, rule autogen-limits -> resource shop/Deployment/careless: fail", "Enforce"}},
		{begins: "ephor rollout", code: 2, says: []string{"Policy require-limits (Enforce)", "shop        Enforce   3 ", "violation rate of requests", "MISS"}},
		{begins: "kubectl get clusterpolicy", code: 2, says: []string{"run the same command again to see where the results differ"}, once: true},
		{begins: "ephor rollout --replace", code: 2, says: []string{"Policy require-limits and 1 policy that is to replace it", "recorded requests: ", "Not ready to be swapped:", "7 days have to pass"}},
	}
	blocks, query := guide(t, filepath.Join(root, "docs", "operating", "rollout.md"))
	if len(blocks) != len(steps) {
		t.Fatalf("docs/operating/rollout.md has %d blocks of commands, and the test %d", len(blocks), len(steps))
	}
	for i, s := range steps {
		commands := blocks[i].commands
		if !strings.HasPrefix(commands, s.begins) {
			t.Fatalf("block %d of docs/operating/rollout.md is %q, want %q", i, commands, s.begins)
		}
		if strings.Contains(commands, "jq") && !suite.Tool(t, "jq") {
			continue
		}
		s.says = append(s.says, blocks[i].shows...)
		if strings.HasPrefix(s.begins, "kubectl create deployment") {
			suite.Until(t, "the policy is enforced", func() error { return shell.run(step{code: 1, says: s.says}, commands+" --dry-run=server") })
		}
		if s.once {
			if err := shell.run(s, commands); err != nil {
				t.Fatal(err)
			}
		} else {
			suite.Until(t, s.begins, func() error { return shell.run(s, commands) })
		}
		t.Logf("$ %s\n%s", commands, shell.said)
		if s.then != nil {
			s.then()
		}
	}

	// The output for programs: requests for two Deployments violate the policy in shop, and none elsewhere.
	suite.Eventually(t, func() error {
		out, _ := shell.output("ephor rollout require-limits -o json --metrics-window 1h --metrics-url http://localhost:9090")
		var p rollout.Plan
		if err := json.Unmarshal(out, &p); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		for _, n := range p.Namespaces {
			switch {
			case n.Requests == nil:
				return fmt.Errorf("nothing is known of requests in %s", n.Name)
			case n.Name == "shop" && (n.Requests.Refused < 2 || n.Safe), n.Name == "lab" && (n.Requests.Refused != 0 || !n.Safe):
				return fmt.Errorf("%s: %+v, %t", n.Name, n.Requests, n.Safe)
			}
		}
		if p.Verdict != rollout.Unsafe || len(p.Refused) != 0 || p.Created == nil {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	// After the days, the converted policy takes over: both are in force for a moment, and then the old one is gone.
	suite.Until(t, "the policies are swapped", func() error {
		return shell.run(step{says: []string{"require-limits is deleted: the new policies were ready before"}}, "ephor rollout --replace require-limits=require-limits-cel.yaml --days 0 --swap")
	})
	if err := shell.run(step{code: 1, says: []string{"denied the request", "every container needs limits"}}, "kubectl create deployment careless --image=nginx -n shop --dry-run=server"); err != nil {
		t.Error(err)
	}
	if response, err := http.Get(metrics + "/api/v1/query?query=" + url.QueryEscape(query)); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("the query of docs/operating/rollout.md: %v %v", response, err)
	}
	page, err := os.ReadFile(filepath.Join(shell.dir, "compliance.html"))
	if err != nil || !strings.Contains(string(page), "<td>require-limits</td>") {
		t.Errorf("the page for people: %v\n%s", err, page)
	}
}

// A user who may list reports of one namespace can query that namespace. What the user may not read is reported, with its exit code. A
// policy without any report is never safe.
func TestRights(t *testing.T) {
	cluster.Start(t, devcluster.Admission)
	cluster.Apply(t, rights)
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	shell := newShell(t, root, "")
	admin := shell.env
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "team", "reader")
	if err != nil {
		t.Fatal(err)
	}
	shell.env = append(admin, "KUBECONFIG="+kubeconfig)
	for _, c := range []struct {
		commands string
		want     step
	}{
		{"ephor report -n team -o csv", step{says: []string{"by-hand,team,high,0,1,0,0,0"}}},
		{"ephor report -o csv", step{code: 1, says: []string{`list policyreports.wgpolicyk8s.io: policyreports.wgpolicyk8s.io is forbidden`, "its reports are missing"}}},
		{"ephor rollout by-hand -n team --owner-label team", step{code: 1, says: []string{"cannot get resource \"clusterpolicies\""}}},
		{"ephor rollout nobody", step{code: 1, says: []string{"cannot get resource"}}},
	} {
		if err := shell.run(c.want, c.commands); err != nil {
			t.Error(err)
		}
	}
	shell.env = admin
	for _, c := range []struct {
		commands string
		want     step
	}{
		{"ephor rollout nobody", step{code: 1, says: []string{`"nobody" not found; NAMESPACE/NAME finds a Policy`}}},
		{"ephor rollout team/by-hand", step{code: 2, says: []string{"It is not known whether it is safe to enforce:", "no report says anything about the policy"}}},
		{"ephor rollout by-hand --owner-label team -n team", step{code: 2, says: []string{"team        Audit   1           1 ", "ConfigMap/x   by-namespace   1 "}}},
		{"ephor rollout by-hand --owner-label team --owner-reads 0", step{code: 2, says: []string{"? (ConfigMap/x)", "the owners of 1 resource: --owner-reads bounds"}}},
		{"ephor rollout by-hand --metrics-url http://127.0.0.1:1", step{code: 1, says: []string{"--metrics-url: ", "connection refused"}}},
	} {
		if err := shell.run(c.want, c.commands); err != nil {
			t.Error(err)
		}
	}
}

// rights are the rights of a user of one namespace, and a report of it that was written by hand.
const rights = `
apiVersion: v1
kind: Namespace
metadata: {name: team, labels: {team: by-namespace}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: team}
rules:
- {apiGroups: [wgpolicyk8s.io, openreports.io], resources: [policyreports, reports], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: team}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: x, namespace: team}
---
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata: {name: by-hand, namespace: team}
scope: {apiVersion: v1, kind: ConfigMap, name: x, namespace: team}
results: [{policy: by-hand, rule: r, result: fail, severity: high, source: kyverno, message: by hand}]
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: by-hand}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {failureAction: Audit, pattern: {metadata: {labels: {a: b}}}}
---
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: by-hand, namespace: team}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {failureAction: Audit, pattern: {metadata: {labels: {a: b}}}}
`

// block is a block of commands of a page, with lines of the output that the page shows.
type block struct {
	commands string
	shows    []string
}

// guide reads the blocks with the language sh, the lines of the following block with the language text, and the block with the language
// promql. A line "…" stands for omitted lines. Output that differs from run to run has the language txt, and is not compared.
func guide(t *testing.T, file string) (blocks []block, query string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		text := strings.TrimSpace(m[2])
		switch m[1] {
		case "sh":
			blocks = append(blocks, block{commands: text})
		case "promql":
			query = text
		case "text":
			last := &blocks[len(blocks)-1]
			for line := range strings.Lines(text) {
				if line = strings.TrimRight(line, " \n"); line != "" && line != "…" {
					last.shows = append(last.shows, line)
				}
			}
		}
	}
	return blocks, query
}

// shell runs commands like a reader of the page, in a folder with a link to the examples.
type shell struct {
	dir     string
	env     []string
	metrics string // the address of the Prometheus server
	said    []byte // output of the last block
}

func newShell(t *testing.T, root, metrics string) *shell {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := errors.Join(
		os.Mkdir(bin, 0o700),
		os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")),
		os.Symlink(filepath.Join(root, "bin", "ephor"), filepath.Join(bin, "ephor")),
		os.WriteFile(filepath.Join(bin, "kubectl"), []byte(`#!/bin/sh
# No kubelet serves logs here.
if [ "$1" = logs ]; then exec cat "$ADMISSION_LOG"; fi
exec `+cluster.KubectlPath()+` "$@"`+"\n"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	return &shell{dir: dir, metrics: metrics, env: append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+cluster.Kubeconfig)}
}

func (s *shell) output(commands string) ([]byte, int) {
	commands = strings.NewReplacer("http://localhost:9090", s.metrics, "--since 1h", "--since 10s").Replace(commands)
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, _ := cmd.CombinedOutput()
	return out, cmd.ProcessState.ExitCode()
}

// run returns an error unless the block has the effect of the step.
func (s *shell) run(want step, commands string) error {
	out, code := s.output(commands)
	s.said = out
	if code != want.code {
		return fmt.Errorf("%s ended with %d, want %d:\n%s", commands, code, want.code, out)
	}
	for _, text := range want.says {
		if !strings.Contains(string(out), text) {
			return fmt.Errorf("%s does not say %q:\n%s", commands, text, out)
		}
	}
	return nil
}

// prometheus starts Prometheus's own engine behind the HTTP API of Prometheus, for the metrics of the controller.
func prometheus(t *testing.T, root string, of *devcluster.Replica) (address string) {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "promql") // another package may build and run it at the same time
	if out, err := exec.Command("go", "build", "-C", filepath.Join(root, "hack", "tools", "promql"), "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address = fmt.Sprintf("127.0.0.1:%d", port)
	if _, err := cluster.Run("prometheus", nil, tool, "-serve", address, "admission=http://"+of.MetricsAddr+"/metrics"); err != nil {
		t.Fatal(err)
	}
	return "http://" + address
}
