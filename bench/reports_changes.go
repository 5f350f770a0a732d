package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/bench/load"
)

// The changes after the first scan, and their limits.
const (
	reportsChanged = 500
	reportsIdle    = 5 * time.Minute
	// A changed resource is evaluated after two seconds, so that several changes count as one.
	reportsChangeSeconds = 30
	reportsPolicySeconds = 60
)

// podsChange changes the image of Pods, which does not affect any result: they are evaluated again, and nothing is written.
func (g *reportsBench) podsChange(ctx context.Context) error {
	before, all, err1 := g.generations(ctx)
	counted, err2 := g.results()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	each := total(counted) / float64(all)
	const patch = `[{"op":"replace","path":"/spec/containers/0/image","value":"registry.example.com/web:2"}]`
	cpu, _, took, err := g.cost(func() error {
		errs := make([]error, 8)
		var running sync.WaitGroup
		for worker := range errs {
			running.Go(func() {
				for i := worker; i < reportsChanged && errs[worker] == nil; i += len(errs) {
					pods := g.objects.Resource(podsGVR).Namespace(fmt.Sprint("bench-", i%10))
					_, errs[worker] = pods.Patch(ctx, fmt.Sprint("pod-", i), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
				}
			})
		}
		running.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for ; ; time.Sleep(200 * time.Millisecond) {
			now, err := g.results()
			if err != nil || total(now)-total(counted) >= reportsChanged*each {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	after, _, err1 := g.generations(ctx)
	now, err2 := g.results()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	g.row(fmt.Sprintf("%d Pods change: they are evaluated again", reportsChanged), "s", took.Seconds(), reportsChangeSeconds)
	g.row("Pods change: times that each is evaluated", "", (total(now)-total(counted))/(reportsChanged*each), reportsWrites)
	g.row("Pods change: writes, since no result is another", "", float64(after-before), 0)
	fmt.Printf("%d of %d Pods change: %.1f s CPU of the controller\n", reportsChanged, all, cpu.Seconds())
	return nil
}

// total returns the number of results of all policies.
func total(results map[string]float64) float64 {
	sum := 0.0
	for _, n := range results {
		sum += n
	}
	return sum
}

// awaitWrites waits until reports were written that often.
func (g *reportsBench) awaitWrites(ctx context.Context, n int64) error {
	for ; ; time.Sleep(200 * time.Millisecond) {
		writes, _, err := g.generations(ctx)
		if err != nil || writes >= n {
			return err
		}
	}
}

// policyChanges changes the message of one policy that some Pods violate, five times: only its results are computed again, and only the
// reports with that message are written. The median is reported, because one change costs up to twice as much as another.
func (g *reportsBench) policyChanges(ctx context.Context) error {
	const name = "disallow-host-namespaces"
	policy, err := g.auditPolicy(name)
	if err != nil {
		return err
	}
	var took, cpu, server, others, writes []float64
	for i := range 5 {
		text := strings.Replace(policy, "message: >-", fmt.Sprintf("message: >-\n        Change %d.", i+1), 1)
		c, err := g.policyChange(ctx, name, text)
		if err != nil {
			return err
		}
		took, cpu, server = append(took, c.took.Seconds()), append(cpu, c.cpu.Seconds()), append(server, c.server.Seconds())
		others, writes = append(others, c.others), append(writes, c.writes)
	}
	g.row("a policy changes: its results are found again", "s", load.Median(took), reportsPolicySeconds)
	g.row("a policy changes: results of others found again", "", slices.Max(others), 0)
	g.row("a policy changes: writes per report that changes", "", slices.Max(writes), reportsWrites)
	fmt.Printf("a policy changes: %.2f s CPU of the controller (%.2f), %.1f s of the API server (%.1f)\n", load.Median(cpu), cpu, load.Median(server), server)
	return nil
}

// policyChange is the cost of one change of a policy.
type policyChange struct {
	cpu, server, took time.Duration
	others            float64 // results of other policies
	writes            float64 // per report with a changed result
}

func (g *reportsBench) policyChange(ctx context.Context, name, text string) (policyChange, error) {
	violating := int64(reportsPods / 50)
	var c policyChange
	before, _, err1 := g.generations(ctx)
	counted, err2 := g.results()
	if err := errors.Join(err1, err2); err != nil {
		return c, err
	}
	var err error
	c.cpu, c.server, c.took, err = g.cost(func() error {
		if _, err := g.cluster.Kubectl(ctx, []byte(text), "apply", "-f", "-"); err != nil {
			return err
		}
		for ; ; time.Sleep(200 * time.Millisecond) {
			now, err := g.results()
			if err != nil {
				return err
			}
			if now[name]-counted[name] >= reportsPods {
				return g.awaitWrites(ctx, before+violating)
			}
		}
	})
	if err != nil {
		return c, err
	}
	after, _, err1 := g.generations(ctx)
	now, err2 := g.results()
	c.writes = float64(after-before) / float64(violating)
	for policy, n := range now {
		if policy != name {
			c.others += n - counted[policy]
		}
	}
	return c, errors.Join(err1, err2)
}

// auditPolicy returns one of the policies, with the action Audit.
func (g *reportsBench) auditPolicy(name string) (string, error) {
	policies, err := g.auditPolicies()
	if err != nil {
		return "", err
	}
	for p := range strings.SplitSeq(string(policies), "---\n") {
		if strings.Contains(p, "name: "+name+"\n") {
			return p, nil
		}
	}
	return "", fmt.Errorf("no policy %s", name)
}

// results returns the number of scan results by policy.
func (g *reportsBench) results() (map[string]float64, error) {
	resp, err := http.Get("http://" + g.controller.MetricsAddr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		_, rest, found := strings.Cut(line, `policy_name="`)
		if !found || !strings.HasPrefix(line, "kyverno_policy_results_total{") {
			continue
		}
		name, _, _ := strings.Cut(rest, `"`)
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return nil, err
		}
		out[name] += n
	}
	return out, lines.Err()
}

// nothing waits, and counts the controller's writes during that time, except those of its Leases. SHORT=1 waits a tenth as long.
func (g *reportsBench) nothing(ctx context.Context) error {
	idle := reportsIdle
	if os.Getenv("SHORT") != "" {
		idle /= 10
	}
	if err := g.settled(ctx); err != nil {
		return err
	}
	if _, err := g.audit.Next(); err != nil {
		return err
	}
	cpu, _, _, err := g.cost(func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(idle):
			return nil
		}
	})
	if err != nil {
		return err
	}
	asked, err := g.audit.Next()
	if err != nil {
		return err
	}
	writes := reportWrites(asked)
	g.row(fmt.Sprintf("nothing for %s: writes besides Leases", idle), "", float64(len(writes)), 0)
	for _, a := range writes[:min(5, len(writes))] {
		fmt.Println("while nothing happens:", a.What(), a.ObjectRef.Namespace+"/"+a.ObjectRef.Name)
	}
	fmt.Printf("nothing for %s: %.2f s CPU of the controller\n", idle, cpu.Seconds())
	return nil
}

// settled waits until the effects of earlier changes are complete: results of admission are in the reports, and events are written.
func (g *reportsBench) settled(ctx context.Context) error {
	for ; ; time.Sleep(time.Second) {
		left, err := g.reports.Resource(ephemeralGVR).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		if len(left.Items) == 0 {
			time.Sleep(10 * time.Second)
			return nil
		}
	}
}

// reportWrites returns the writes of the reports controller, except those of its Leases.
func reportWrites(asked []load.Asked) []load.Asked {
	var out []load.Asked
	for _, a := range asked {
		switch a.Verb {
		case "create", "update", "patch", "delete", "deletecollection":
			if strings.HasSuffix(a.User.Username, "reports-controller") && a.ObjectRef.Resource != "leases" {
				out = append(out, a)
			}
		}
	}
	return out
}
