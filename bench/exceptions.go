package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ephor.invalid/ephor/bench/load"
)

// The exceptions of the measurement: three of them name policies that are evaluated, and do not select the Pod.
const (
	exceptionsInAll    = 500
	exceptionsRelevant = 3
	exceptionsTarget   = 1.02

	exceptionsRounds   = 80 // many short ones, since the ratio is small beside the noise of a machine: each differs by 6 %
	exceptionsRequests = 2000
	exceptionsSettle   = 30 * time.Second // until the statuses of the exceptions are written
)

// exceptionsIn are the namespaces of the measurement: one half of the processes accepts exceptions of the first only, the other half of the second.
var exceptionsIn = [2]string{"exceptions-a", "exceptions-b"}

// exceptions compares processes that have 500 exceptions in force, of which three are relevant, with processes of the same installation that have
// none, in interleaved rounds. The exceptions are first in the namespace of one half of the processes, then in that of the other half, and
// the result is the geometric mean of both ratios: two processes with the same arguments differ by up to 4 %, and so the difference cancels.
// One more process starts first and is not measured, since it becomes the leader.
func (b *bench) exceptions() error {
	var flags [][]string
	group := []int{0, 0, 1, 1, 0}
	for _, g := range group {
		flags = append(flags, []string{"--enablePolicyException=true", "--exceptionNamespace=" + exceptionsIn[g]})
	}
	c, servers, err := b.startReplicas("e2e", nil, flags, classicPolicies)
	if err != nil {
		return err
	}
	defer c.Stop()
	servers, group = servers[1:], group[1:] // without the leader
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	pods := []struct {
		name     string
		question load.Question
	}{{"good", load.Question{Body: load.Review(load.Pod("shop", false)), Allowed: true}}, {"bad", load.Question{Body: load.Review(load.Pod("shop", true))}}}
	squares := slices.Repeat([]float64{1}, len(pods)) // of the results: the products of both ratios
	for holding, namespace := range exceptionsIn {
		if _, err := c.Kubectl(ctx, nil, "create", "namespace", namespace); err != nil {
			return err
		}
		if _, err := c.Kubectl(ctx, []byte(benchExceptions(namespace)), "apply", "--server-side", "-f", "-"); err != nil {
			return err
		}
		for k, s := range servers {
			want := 0
			if group[k] == holding {
				want = exceptionsInAll
			}
			if err := c.Wait(ctx, "the exceptions to be in force", func() error { return inForce(ctx, s.Metrics, want) }); err != nil {
				return err
			}
		}
		time.Sleep(exceptionsSettle)
		for i, pod := range pods {
			var ratios []float64
			var with, without time.Duration // for each request, over all rounds
			for round := range exceptionsRounds + 1 {
				var on, off time.Duration
				for k := range servers {
					k = (k + round) % len(servers) // each is the first one in some rounds
					r, err := servers[k].Round(exceptionsRequests, pod.question)
					if err != nil {
						return err
					}
					if group[k] == holding {
						on += r.CPU
					} else {
						off += r.CPU
					}
				}
				if round > 0 { // the first round only warms up
					ratios = append(ratios, float64(on)/float64(off))
					with, without = with+on, without+off
				}
			}
			ratio, reviews := load.Median(ratios), time.Duration(exceptionsRounds*len(servers)/2)
			fmt.Printf("%s Pod: %d µs with exceptions in %s, %d µs without: %.3f\n", pod.name, (with / reviews).Microseconds(), namespace, (without / reviews).Microseconds(), ratio)
			squares[i] *= ratio
		}
		if _, err := c.Kubectl(ctx, nil, "delete", "policyexceptions", "--all", "--namespace", namespace); err != nil {
			return err
		}
	}
	for i, pod := range pods {
		ratio := math.Sqrt(squares[i])
		fmt.Printf("%s Pod: %.3f with %d exceptions, %d relevant (target %.2f)\n", pod.name, ratio, exceptionsInAll, exceptionsRelevant, exceptionsTarget)
		b.row("exceptions-"+pod.name, "x", ratio, exceptionsTarget)
	}
	return nil
}

// benchExceptions returns the exceptions of the measurement as YAML documents.
func benchExceptions(namespace string) string {
	var all strings.Builder
	for i := range exceptionsInAll {
		named := fmt.Sprintf("other-%d", i)
		if i < exceptionsRelevant {
			named = []string{"disallow-host-namespaces", "disallow-privileged-containers", "disallow-capabilities"}[i]
		}
		fmt.Fprintf(&all, `---
{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e-%d, namespace: %s, annotations: {exceptions.ephor.dev/reason: measured, exceptions.ephor.dev/owner: bench}},
spec: {exceptions: [{policyName: %s, ruleNames: ["*"]}], match: {any: [{resources: {kinds: [Pod], namespaces: [shop], names: ["other-%d"]}}]}}}
`, i, namespace, named, i)
	}
	return all.String()
}

// inForce returns an error unless the metrics of a process count this many exceptions in force.
func inForce(ctx context.Context, address string, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if counted := regexp.MustCompile(`(?m)^ephor_policy_exceptions\{.*state="in_force".* (\d+)$`).FindSubmatch(text); err == nil && (counted == nil && want > 0 || counted != nil && string(counted[1]) != strconv.Itoa(want)) {
		err = fmt.Errorf("not %d of them are counted: %q", want, counted)
	}
	return err
}
