package trust

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

// expensive returns a Policy of mallory's with n rules on ConfigMaps; each takes about 10 ms and stays within the budget of one rule.
func expensive(n int) string {
	var b strings.Builder
	b.WriteString("apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: expensive, namespace: mallory}\nspec:\n  rules:\n")
	query := "[`1`,`2`]" + strings.Repeat("|[@,@][]", 15) + "|[" + strings.TrimSuffix(strings.Repeat("@[?@>`3`],", 4), ",") + "][]|length(@)"
	for i := range n {
		fmt.Fprintf(&b, "  - name: r%d\n    match: {any: [{resources: {kinds: [ConfigMap]}}]}\n    validate:\n      failureAction: Enforce\n      message: bad\n      deny: {conditions: {all: [{key: \"{{ %s }}\", operator: Equals, value: 9}]}}\n", i, query)
	}
	return b.String()
}

// TestT8ExpensivePolicy: a request that matches mallory's policy of 400 rules ends in an error of that policy, which its status reports.
// Meanwhile a policy of another namespace is evaluated normally.
func TestT8ExpensivePolicy(t *testing.T) {
	cluster.Must(t, `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: named, namespace: victim}
spec:
  rules:
  - name: named
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {failureAction: Enforce, message: a name of its own, pattern: {metadata: {name: "fine*"}}}
`, "apply", "-f", "-")
	suite.Eventually(t, func() error {
		_, err := asMallory(t, expensive(400), "apply", "-f", "-")
		return err
	})
	t.Cleanup(func() { // other tests use ConfigMaps of mallory's too
		cluster.Must(t, "", "delete", "policies.kyverno.io", "-n", mallory, "expensive")
		cluster.Must(t, "", "delete", "policies.kyverno.io", "-n", "victim", "named")
	})
	cluster.Must(t, "", "wait", "--for=condition=Ready", "-n", "victim", "policies.kyverno.io/named")
	cluster.Must(t, "", "wait", "--for=condition=Ready", "-n", mallory, "policies.kyverno.io/expensive")
	attack := func() error {
		out, err := asMallory(t, "", "create", "configmap", "attack", "--dry-run=server")
		if err == nil || !strings.Contains(err.Error()+out, "budget exhausted") {
			return fmt.Errorf("mallory's request: %s (%v), want an error of the policy that names its budget", out, err)
		}
		return nil
	}
	suite.Eventually(t, attack)
	suite.Eventually(t, func() error {
		out, err := cluster.Try(t, "", "get", "policies.kyverno.io", "-n", mallory, "expensive", "-o", "jsonpath={.status.budget.rule}: {.status.budget.message}")
		if err == nil && (!strings.HasPrefix(out, "r") || !strings.Contains(out, "budget exhausted")) {
			err = fmt.Errorf("the status says %q of the budget", out)
		}
		return err
	})
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() { errs[i] = attack() })
	}
	for range 3 {
		if out, err := cluster.Try(t, "", "create", "configmap", "fine", "-n", "victim", "--dry-run=server"); err != nil {
			t.Errorf("a request of another namespace meanwhile: %s (%v)", out, err)
		}
		if out, err := cluster.Try(t, "", "create", "configmap", "other", "-n", "victim", "--dry-run=server"); err == nil || !strings.Contains(err.Error()+out, "a name of its own") {
			t.Errorf("a violation in another namespace meanwhile: %s (%v)", out, err)
		}
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}
