package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"ephor.invalid/ephor/corpus"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/policy"
)

// notLive lists cases with other results on a live API server, because it changes or rejects the objects before the webhooks receive them.
var notLive = sets.New(
	"match/kinds",         // an invalid Deployment
	"validate/numbers",    // a field that ConfigMaps do not have
	"exceptions/workload", // owners have the UIDs that the API server chooses: TestExceptionCoversWorkloads
	"limits/budget",       // denied with a message of several pages
)

// TestCorpus sends the objects of the shared corpus to the live API server. It must admit and deny the same objects as the engine, and name
// the same rules. Updates are left out, since they need a stored old object.
func TestCorpus(t *testing.T) {
	cases, err := corpus.Load("../corpus/testdata")
	if err != nil {
		t.Fatal(err)
	}
	ran, evaluated := 0, 0
	made := sets.New("default")
	for _, c := range cases {
		if c.Old != "" || notLive.Has(c.Name) {
			continue
		}
		ran++
		programs, diags := c.Compile()
		if diags.HasErrors() {
			t.Fatal(c.Name, diags)
		}
		for _, p := range programs {
			makeNamespace(t, made, p.Namespace)
		}
		for _, o := range slices.Concat(c.Resources, c.World) {
			makeNamespace(t, made, c.Request(o, false).Namespace)
		}
		t.Run(c.Name, func(t *testing.T) {
			snapshot := catalog.NewStatic(programs)
			for _, w := range c.World {
				must(t, w, "apply", "-f", "-")
			}
			applyPolicies(t, policyFile(t, strings.Join(c.Policies, "\n---\n")))
			if len(c.Namespaces) > 0 {
				t.Cleanup(func() { relabel(t, c, "-") })
				relabel(t, c, "")
			}
			// Denied objects come first: they prove that the webhooks are in force.
			for _, allowed := range []bool{false, true} {
				for _, r := range c.Resources {
					want := c.Evaluate(snapshot, r, false)
					if want.Allowed != allowed {
						continue
					}
					evaluated++
					if allowed {
						isRefused(t, r, "")
						continue
					}
					for _, rule := range refusing(want, programs) {
						isRefused(t, r, rule)
					}
				}
			}
		})
	}
	t.Logf("%d of %d cases, %d objects", ran, len(cases), evaluated)
}

// refusing returns the rules that deny the object, in the form of the message.
func refusing(j corpus.Evaluation, programs []*policy.Program) []string {
	var out []string
	for _, p := range programs {
		for _, r := range p.Rules {
			for _, line := range j.Results {
				if strings.HasPrefix(line, p.Key()+"/"+r.Name+" fail") || strings.HasPrefix(line, p.Key()+"/"+r.Name+" error") {
					out = append(out, p.Name+":", r.Name+": ")
				}
			}
		}
	}
	return out
}

func makeNamespace(t *testing.T, made sets.Set[string], ns string) {
	t.Helper()
	if ns == "" || made.Has(ns) {
		return
	}
	made.Insert(ns)
	if phase, _ := kubectl(t, "", "get", "namespace", ns, "-o", "jsonpath={.status.phase}"); phase != "Active" { // every cluster has some
		cluster.Namespace(t, ns)
	}
	must(t, "", "wait", "--for=create", "serviceaccount/default", "-n", ns)
}

// relabel sets the labels of the case's namespaces, or removes them with the suffix "-".
func relabel(t *testing.T, c *corpus.Case, suffix string) {
	t.Helper()
	for ns, labels := range c.Namespaces {
		for k, v := range labels {
			pair := k + "=" + v
			if suffix == "-" {
				pair = k + "-"
			}
			if _, err := cluster.Kubectl(context.Background(), nil, "label", "--overwrite", "namespace", ns, pair); err != nil {
				t.Error(err)
			}
		}
	}
}
