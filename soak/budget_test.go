package soak

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/e2e/suite"
)

// Forty clients of a tenant create ConfigMaps (server-side dry run) under a policy of the tenant with 400 rules that take seconds together,
// while others create Pods at a steady rate. This alternates with a policy of the same tenant without cost, so the ratio shows the effect
// of the policy, and not of forty clients.
func TestBudgetOfTenants(t *testing.T) {
	const rounds, attackers, others = 5, 40, 4
	phase := lasting(20 * time.Second)
	p := install(t)
	replica := p.start(1)[0]
	p.podSecurity()
	p.kubectl("create", "namespace", "tenant")
	c := p.podClient(others)
	suite.Until(p.T, "the policies are enforced", c.enforced)
	tenant := p.podClient(attackers)
	tenant.url = strings.Replace(tenant.url, "/namespaces/default/pods", "/namespaces/tenant/configmaps", 1)
	tenant.clean = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"b"}}`)
	var refusals atomic.Int64
	measure := func(expensive bool) time.Duration {
		name, rules := "cheap", 1
		if expensive {
			name, rules = "expensive", 400
		}
		p.apply(tenantPolicy(name, rules))
		p.kubectl("wait", "--for=condition=Ready", "-n", "tenant", "policies.kyverno.io/"+name)
		defer p.kubectl("delete", "policies.kyverno.io", "-n", "tenant", name)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for k := range attackers {
			wg.Go(func() {
				repeat(stop, 250*time.Millisecond, func() { // at most 160 a second, in both cases
					if refusal, err := tenant.create(k, tenant.clean); err == nil && strings.Contains(refusal, "budget exhausted") {
						refusals.Add(1)
					}
				})
			})
		}
		time.Sleep(lasting(5 * time.Second)) // until the tenant's initial allowance is used up
		times, err := c.times(phase, 20*time.Millisecond)
		close(stop)
		wg.Wait()
		if err != nil {
			t.Fatal(err)
		}
		return load.Percentile(times, 99)
	}
	var ratios []float64
	for i := range rounds {
		without, with := measure(false), measure(true)
		t.Logf("round %d: p99 of others %v beside a cheap policy, %v beside an expensive one", i, without, with)
		ratios = append(ratios, float64(with)/float64(without))
	}
	if err := suite.Alive(replica); err != nil {
		t.Error(err)
	}
	n := refusals.Load()
	figure(t, "requests of the tenant that ended in an error of its policy", n, "some", n > 0)
	figure(t, fmt.Sprintf("p99 of others beside the expensive policy, median of %d rounds", rounds), fmt.Sprintf("%.2f x", median(ratios)), "at most 1.5 x", median(ratios) <= 1.5)
}

// times creates clean Pods with all clients for a while, each with a pause after every request, and returns the durations, sorted.
func (c *podClient) times(d, pause time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	begin := time.Now()
	for k := range c.http {
		wg.Go(func() {
			var mine []time.Duration
			var err error
			for time.Since(begin) < d && err == nil {
				at := time.Now()
				var refusal string
				if refusal, err = c.create(k, c.clean); err == nil && refusal != "" {
					err = fmt.Errorf("a clean Pod is refused: %s", refusal)
				}
				mine = append(mine, time.Since(at))
				time.Sleep(pause)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all, failed
}

// tenantPolicy returns a Policy on ConfigMaps with n rules within the budget of a rule; if n is more than one, each takes some 10 ms.
func tenantPolicy(name string, n int) string {
	query := "length(request.object.data)"
	if n > 1 {
		query = "[`1`,`2`]" + strings.Repeat("|[@,@][]", 15) + "|[" + strings.TrimSuffix(strings.Repeat("@[?@>`3`],", 4), ",") + "][]|length(@)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: %s, namespace: tenant}\nspec:\n  rules:\n", name)
	for i := range n {
		fmt.Fprintf(&b, "  - name: r%d\n    match: {any: [{resources: {kinds: [ConfigMap]}}]}\n    validate:\n      failureAction: Enforce\n      message: bad\n      deny: {conditions: {all: [{key: \"{{ %s }}\", operator: Equals, value: 9}]}}\n", i, query)
	}
	return b.String()
}
