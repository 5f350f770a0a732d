package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"ephor.invalid/ephor/bench/load"
)

// The exceptions of the measurement: three of them name policies that are evaluated, and do not select the Pod.
const (
	exceptionsInAll    = 500
	exceptionsRelevant = 3
	exceptionsTarget   = 1.02

	exceptionsRounds   = 40 // many short ones, since the ratio is small beside the noise of a machine
	exceptionsRequests = 2000
)

// exceptions compares two processes of one installation, in interleaved rounds: one with 500 exceptions in force, of which three are relevant,
// and one without exceptions.
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
	c, servers, err := b.startReplicas("e2e", nil, [][]string{{"--enablePolicyException=true", "--exceptionNamespace=*"}, {"--enablePolicyException=false"}}, classicPolicies)
	if err != nil {
		return err
	}
	defer c.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if _, err := c.Kubectl(ctx, []byte(all.String()), "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	if err := c.Wait(ctx, "the exceptions to be in force", func() error { return inForce(ctx, servers[0].Metrics) }); err != nil {
		return err
	}
	good, bad := load.Review(load.Pod("shop", false)), load.Review(load.Pod("shop", true))
	for _, pod := range []struct {
		name    string
		body    []byte
		allowed bool
	}{{"good", good, true}, {"bad", bad, false}} {
		var ratios []float64
		var with, without time.Duration // for each request, over all rounds
		for i := range exceptionsRounds + 1 {
			var cpu [2]time.Duration
			for k := range servers {
				k = (k + i) % len(servers) // each is the first one in half of the rounds
				r, err := servers[k].Round(exceptionsRequests, load.Question{Body: pod.body, Allowed: pod.allowed})
				if err != nil {
					return err
				}
				cpu[k] = r.CPU
			}
			if i > 0 { // the first round only warms up
				ratios = append(ratios, float64(cpu[0])/float64(cpu[1]))
				with, without = with+cpu[0]/exceptionsRounds, without+cpu[1]/exceptionsRounds
			}
		}
		slices.Sort(ratios)
		ratio := 0.0 // the mean of the middle half: a median would be a ratio of clock ticks
		for _, r := range ratios[exceptionsRounds/4 : exceptionsRounds*3/4] {
			ratio += r / (exceptionsRounds / 2)
		}
		fmt.Printf("%s Pod: %d µs with %d exceptions, %d relevant; %d µs without: %.3f (target %.2f)\n", pod.name, with.Microseconds(), exceptionsInAll, exceptionsRelevant, without.Microseconds(), ratio, exceptionsTarget)
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
