// Command afternoon goes the way of docs/migrating/from-kyverno-1.20.md on this machine: on a control plane of its own it stores classic policies
// that nothing executes, runs the commands of that page one after the other, and prints each with its time and what it said.
//
//	make build && go run ./hack/afternoon ../shared/conformance/policies/*/*/*.yaml
//
// The arguments are files with policies, for example your own. Of each kind it takes as many policies as the flags say, in the order of
// their files, and of policies with the same name the first.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/source"
)

var (
	validate = flag.Int("validate", 29, "number of policies that validate")
	mutate   = flag.Int("mutate", 24, "number of policies that mutate")
	generate = flag.Int("generate", 7, "number of policies that generate")
)

// version120 is what preflight recognizes Kyverno 1.20 by. Its Pod finds no node: nothing executes the policies.
const version120 = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: kyverno-admission-controller, namespace: kyverno, labels: {app.kubernetes.io/part-of: kyverno}},
spec: {replicas: 1, selector: {matchLabels: {a: kyverno}}, template: {metadata: {labels: {a: kyverno}}, spec: {containers: [{name: kyverno, image: "kyverno/kyverno:v1.20.0"}]}}}}`

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := afternoon(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "afternoon:", err)
		os.Exit(1)
	}
}

// parts are the kinds of rules by which policies are counted.
var parts = []string{"validate", "mutate", "generate"}

// store stores policies of the files, as many of each kind as the flags say, and returns their names and how many there are of each kind. What the
// API server refuses is left out.
func store(ctx context.Context, c *devcluster.Cluster, files []string) (names []string, counts map[string]int, err error) {
	limits := map[string]int{"validate": *validate, "mutate": *mutate, "generate": *generate}
	objects, diags := source.Load(files, source.Options{})
	counts = map[string]int{}
	taken := map[string]bool{}
	for _, o := range objects {
		apiVersion, _ := o.Value["apiVersion"].(string)
		metadata, _ := o.Value["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		spec, _ := o.Value["spec"].(map[string]any)
		rules, _ := spec["rules"].([]any)
		if o.Kind() != "ClusterPolicy" || !strings.HasPrefix(apiVersion, "kyverno.io/") || taken[name] || len(rules) == 0 {
			continue
		}
		rule, _ := rules[0].(map[string]any)
		i := slices.IndexFunc(parts, func(part string) bool { return rule[part] != nil })
		if i < 0 || counts[parts[i]] == limits[parts[i]] {
			continue
		}
		text, err := yaml.Marshal(o.Value)
		if err != nil {
			return nil, nil, err
		}
		if _, err := c.Kubectl(ctx, text, "apply", "--server-side", "-f", "-"); err != nil {
			fmt.Fprintln(os.Stderr, "left out:", name, err)
			continue
		}
		names, taken[name] = append(names, name), true
		counts[parts[i]]++
	}
	if len(names) == 0 {
		err = fmt.Errorf("no ClusterPolicy in %q: %v", files, diags)
	}
	return names, counts, err
}

// pod is a Pod with a namespace and a name.
const pod = `{apiVersion: v1, kind: Pod, metadata: {name: %[2]s, namespace: %[1]s, labels: {app: web}}, spec: {containers: [{name: web, image: "nginx:latest"}]}}`

// population returns the objects of two namespaces.
func population() string {
	var b strings.Builder
	for _, namespace := range []string{"shop", "bank"} {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n", namespace)
		for i := range 20 {
			fmt.Fprintf(&b, "---\n"+pod+"\n", namespace, fmt.Sprint("web-", i))
			fmt.Fprintf(&b, `---
{apiVersion: v1, kind: Service, metadata: {name: web-%[2]d, namespace: %[1]s}, spec: {type: NodePort, selector: {app: web}, ports: [{port: 80}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web-%[2]d, namespace: %[1]s}, spec: {replicas: 1, selector: {matchLabels: {app: web}},
template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "nginx:1.27"}]}}}}
`, namespace, i)
		}
	}
	return b.String()
}

// table is what is printed: the commands, their times, and what they said.
type table struct {
	root string
	env  []string
}

// ephor runs the program. It returns what it printed on both streams, also if it ends with an exit code, and the time.
func (t *table) ephor(ctx context.Context, stdin string, args ...string) (out, report string, took time.Duration, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(t.root, "bin", "ephor"), args...)
	cmd.Env, cmd.Stdin = t.env, strings.NewReader(stdin)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err = cmd.Run()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		err = nil
	}
	return stdout.String(), stderr.String(), time.Since(began), err
}

// row prints a row of the table.
func (t *table) row(what string, took time.Duration, said string) {
	fmt.Printf("| %s | %.1f s | %s |\n", what, took.Seconds(), said)
}

func afternoon(ctx context.Context) error {
	root, err := devcluster.Root()
	if err != nil {
		return err
	}
	c, err := devcluster.Start(ctx, devcluster.Options{Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer c.Stop()
	ephor, err := c.Install(ctx, "standard")
	if err != nil {
		return err
	}
	names, counts, err := store(ctx, c, flag.Args())
	if err != nil {
		return err
	}
	for _, manifests := range []string{version120, population()} {
		if _, err := c.Kubectl(ctx, []byte(manifests), "apply", "--server-side", "-f", "-"); err != nil {
			return err
		}
	}
	t := &table{root, append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)}
	fmt.Printf("%d policies: %d validate, %d mutate, %d generate\n\n| Command | Time | What it said |\n|---|---|---|\n", len(names), counts["validate"], counts["mutate"], counts["generate"])

	for _, step := range []func() error{
		func() error { return t.preflight(ctx) },
		func() error { return t.auditFirst(ctx) },
		func() error { return t.controllers(ctx, c, ephor, len(names)) },
		func() error { return t.report(ctx, c) },
		func() error { return t.release(ctx, names) },
		func() error { return t.convert(ctx, c) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// preflight counts the findings about policies that nothing executes.
func (t *table) preflight(ctx context.Context) error {
	out, text, took, err := t.ephor(ctx, "", "preflight", "-o", "json")
	if err != nil {
		return err
	}
	var report struct {
		Findings []struct{ Code, Severity string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		return fmt.Errorf("preflight: %w: %s%s", err, out, text)
	}
	inert := map[string]int{}
	for _, f := range report.Findings {
		if f.Code == "policy-inert" {
			inert[f.Severity]++
		}
	}
	t.row("`ephor preflight`", took, fmt.Sprintf("%d policies would act, %d would not, or audit", inert["stops"], inert["note"]))
	return nil
}

// auditFirst takes all policies in as Audit.
func (t *table) auditFirst(ctx context.Context) error {
	out, text, took, err := t.ephor(ctx, "", "rollout", "--audit-first")
	said := regexp.MustCompile(`\d+ policies audit first`).FindString(out + text)
	if err != nil {
		return fmt.Errorf("rollout: %w", err)
	}
	if said == "" {
		return fmt.Errorf("rollout does not say how many policies audit first: %s%s", out, text)
	}
	t.row("`ephor rollout --audit-first`", took, said)
	return nil
}

// controllers starts all controllers, and waits until the status of each policy says whether it is ready.
func (t *table) controllers(ctx context.Context, c *devcluster.Cluster, ephor *devcluster.Ephor, policies int) error {
	began := time.Now()
	for _, component := range ephor.Components() {
		if _, err := ephor.Start(ctx, component); err != nil {
			return err
		}
	}
	var ready int
	var waiting []string
	if err := c.Wait(ctx, "the policies to have a status", func() error {
		out, err := c.Kubectl(ctx, nil, "get", "clusterpolicies", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {.metadata.name}{"\n"}{end}`)
		if err != nil {
			return err
		}
		ready, waiting = 0, nil
		for line := range strings.Lines(out) {
			switch status, name, _ := strings.Cut(strings.TrimSpace(line), " "); status {
			case "True":
				ready++
			case "False":
				waiting = append(waiting, name)
			}
		}
		if n := ready + len(waiting); n < policies {
			return fmt.Errorf("%d of %d have one", n, policies)
		}
		return nil
	}); err != nil {
		return err
	}
	said := fmt.Sprintf("%d policies are Ready", ready)
	if len(waiting) > 0 {
		said += ", not " + strings.Join(waiting, ", ")
	}
	t.row("the controllers start", time.Since(began), said)
	return nil
}

// settled is how long the totals of the reports stay the same before they count as complete.
const settled = 3 * time.Second

// report waits until the reports are complete.
func (t *table) report(ctx context.Context, c *devcluster.Cluster) error {
	type totals struct {
		Reports int
		Totals  struct{ Fail int }
	}
	began := time.Now()
	var last totals
	var since time.Time
	if err := c.Wait(ctx, "reports", func() error {
		out, text, _, err := t.ephor(ctx, "", "report", "-o", "json")
		if err != nil {
			return err
		}
		var now totals
		if err := json.Unmarshal([]byte(out), &now); err != nil {
			return fmt.Errorf("%w: %s%s", err, out, text)
		}
		if now != last {
			last, since = now, time.Now()
		}
		if last.Totals.Fail == 0 || time.Since(since) < settled {
			return fmt.Errorf("there are %+v", last)
		}
		return nil
	}); err != nil {
		return err
	}
	got, err := c.Kubectl(ctx, []byte(fmt.Sprintf(pod, "shop", "probe")), "create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.metadata.labels}{.metadata.annotations}")
	if err != nil {
		return fmt.Errorf("a Pod is denied although all policies audit first: %w", err)
	}
	if got != `{"app":"web"}` {
		return fmt.Errorf("a Pod is changed although all policies audit first: %s", got)
	}
	t.row("`ephor report`", since.Sub(began), fmt.Sprintf("%d violations in %d reports; a Pod that violates them is neither denied nor changed", last.Totals.Fail, last.Reports))
	return nil
}

// release lets each policy do what it says.
func (t *table) release(ctx context.Context, names []string) error {
	began := time.Now()
	for i, name := range names {
		out, text, _, err := t.ephor(ctx, "", "rollout", name, "--as-written")
		if err != nil {
			return fmt.Errorf("rollout %s: %w", name, err)
		}
		if out == "" {
			return fmt.Errorf("rollout %s: %s", name, text)
		}
		if i == 0 {
			t.row("`ephor rollout "+name+" --as-written`", time.Since(began), "released")
			began = time.Now()
		}
	}
	t.row(fmt.Sprintf("the other %d, one by one", len(names)-1), time.Since(began), "released")
	return nil
}

// convert writes the stored policies in CEL.
func (t *table) convert(ctx context.Context, c *devcluster.Cluster) error {
	stored, err := c.Kubectl(ctx, nil, "get", "clusterpolicies", "-o", "yaml")
	if err != nil {
		return err
	}
	_, report, took, err := t.ephor(ctx, stored, "convert", "-", "--prove", "--samples", "100")
	left := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\S+:\d+: (.*?) cannot be converted: `).FindAllStringSubmatch(report, -1) {
		left[m[1]] = true
	}
	t.row("`kubectl get cpol -o yaml \\| ephor convert - --prove --samples 100`", took,
		fmt.Sprintf("%d rules converted, %d without a difference; %d not converted", strings.Count(report, " different\n"), strings.Count(report, " 0 different\n"), len(left)))
	return err
}
