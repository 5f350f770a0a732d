package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"ephor.invalid/ephor/bench/load"
)

// The exceptions of the measurement: three of them name policies that are evaluated, and do not select the Pod.
const (
	exceptionsInAll    = 500
	exceptionsRelevant = 3
	exceptionsTarget   = 1.02

	exceptionsRounds   = 20 // many short ones, since the ratio is small beside the noise of a machine
	exceptionsRequests = 2000
	exceptionsSettle   = 30 * time.Second // until the statuses of the exceptions are written
)

// exceptions compares processes of one installation, in interleaved rounds: four with 500 exceptions in force, of which three are relevant,
// and four without exceptions. Two processes with the same arguments differ by up to 4 %, so the sums of four are compared. One more process
// starts first and is not measured, since it becomes the leader.
func (b *bench) exceptions() error {
	var all strings.Builder
	for i := range exceptionsInAll {
		named := fmt.Sprintf("other-%d", i)
		if i < exceptionsRelevant {
			named = []string{"disallow-host-namespaces", "disallow-privileged-containers", "disallow-capabilities"}[i]
		}
		fmt.Fprintf(&all, `---
{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e-%d, namespace: default, annotations: {exceptions.ephor.dev/reason: measured, exceptions.ephor.dev/owner: bench}},
spec: {exceptions: [{policyName: %s, ruleNames: ["*"]}], match: {any: [{resources: {kinds: [Pod], namespaces: [shop], names: ["other-%d"]}}]}}}
`, i, named, i)
	}
	on, off := []string{"--enablePolicyException=true", "--exceptionNamespace=*"}, []string{"--enablePolicyException=false"}
	excepting := []bool{true, true, false, false, true, true, false, false, true}
	var flags [][]string
	for _, yes := range excepting {
		if yes {
			flags = append(flags, on)
		} else {
			flags = append(flags, off)
		}
	}
	c, servers, err := b.startReplicas("e2e", nil, flags, classicPolicies)
	if err != nil {
		return err
	}
	defer c.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if _, err := c.Kubectl(ctx, []byte(all.String()), "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	servers, excepting = servers[1:], excepting[1:] // without the leader
	for k, s := range servers {
		if !excepting[k] {
			continue
		}
		if err := c.Wait(ctx, "the exceptions to be in force", func() error { return inForce(ctx, s.Metrics) }); err != nil {
			return err
		}
	}
	time.Sleep(exceptionsSettle)
	good, bad := load.Review(load.Pod("shop", false)), load.Review(load.Pod("shop", true))
	for _, pod := range []struct {
		name    string
		body    []byte
		allowed bool
	}{{"good", good, true}, {"bad", bad, false}} {
		var ratios []float64
		var with, without time.Duration // for each request, over all rounds
		for i := range exceptionsRounds + 1 {
			var on, off time.Duration
			for k := range servers {
				k = (k + i) % len(servers) // each is the first one in some rounds
				r, err := servers[k].Round(exceptionsRequests, load.Question{Body: pod.body, Allowed: pod.allowed})
				if err != nil {
					return err
				}
				if excepting[k] {
					on += r.CPU
				} else {
					off += r.CPU
				}
			}
			if i > 0 { // the first round only warms up
				ratios = append(ratios, float64(on)/float64(off))
				with, without = with+on, without+off
			}
		}
		ratio, rounds := load.Median(ratios), time.Duration(exceptionsRounds*len(servers)/2)
		fmt.Printf("%s Pod: %d µs with %d exceptions, %d relevant; %d µs without: %.3f (target %.2f)\n", pod.name, (with / rounds).Microseconds(), exceptionsInAll, exceptionsRelevant, (without / rounds).Microseconds(), ratio, exceptionsTarget)
		b.row("exceptions-"+pod.name, "x", ratio, exceptionsTarget)
	}
	return nil
}

// inForce returns an error unless the metrics of a process count all exceptions.
func inForce(ctx context.Context, address string) error {
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
	if err == nil && !regexp.MustCompile(fmt.Sprintf(`(?m)^ephor_policy_exceptions\{.*state="in_force".* %d$`, exceptionsInAll)).Match(text) {
		err = errors.New("not all of them are counted")
	}
	return err
}
