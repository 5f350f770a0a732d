package soak

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// hands are manual changes of a webhook configuration with a webhook: a patch each.
var hands = []struct{ what, kind, patch string }{
	{"failurePolicy", "json", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`},
	{"no rules", "json", `[{"op":"replace","path":"/webhooks/0/rules","value":[]}]`},
	{"another resource", "json", `[{"op":"replace","path":"/webhooks/0/rules/0/resources","value":["nothing"]}]`},
	{"a namespaceSelector", "json", `[{"op":"replace","path":"/webhooks/0/namespaceSelector","value":{"matchLabels":{"never":"there"}}}]`},
	{"an objectSelector", "json", `[{"op":"replace","path":"/webhooks/0/objectSelector","value":{"matchLabels":{"never":"there"}}}]`},
	{"matchConditions", "json", `[{"op":"add","path":"/webhooks/0/matchConditions","value":[{"name":"never","expression":"false"}]}]`},
	{"timeout", "json", `[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":1}]`},
	{"no caBundle", "json", `[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`},
	{"another path", "json", `[{"op":"replace","path":"/webhooks/0/clientConfig/service/path","value":"/elsewhere"}]`},
	{"sideEffects", "json", `[{"op":"replace","path":"/webhooks/0/sideEffects","value":"None"}]`},
	{"no webhooks", "json", `[{"op":"replace","path":"/webhooks","value":[]}]`},
	{"no labels", "merge", `{"metadata":{"labels":null}}`},
	{"no owner", "merge", `{"metadata":{"ownerReferences":null}}`},
}

// Every webhook configuration is deleted, alone and all together, and edited in every way, with three replicas: each time it is restored,
// and a line of the log reports what was restored.
func TestWebhooksByHand(t *testing.T) {
	p := install(t)
	p.apply(addLabel)
	replicas := p.start(3)
	cleaner, err := p.Ephor.Start(t.Context(), devcluster.Cleanup)
	if err != nil {
		t.Fatal(err)
	}
	replicas = append(replicas, cleaner)
	var before map[string]string
	suite.Until(p.T, "all configurations are there and stay", func() error {
		a := p.configurations()
		time.Sleep(2 * time.Second)
		before = p.configurations()
		if fmt.Sprint(a) != fmt.Sprint(before) || len(before) < 7 {
			return fmt.Errorf("%d configurations, or they change", len(before))
		}
		return nil
	})
	var worst time.Duration
	worstWhat, deeds, silent := "", 0, 0
	do := func(what string, names []string, deed func() string) {
		said := map[string]int{}
		for _, n := range names {
			_, name, _ := strings.Cut(n, "/")
			said[n] = logs(replicas, "restored webhook configuration", name)
		}
		begin := time.Now()
		if strings.Contains(deed(), "(no change)") {
			return // it already was like that
		}
		suite.Until(p.T, what+" is restored", func() error {
			now := p.configurations()
			for name, want := range before {
				if now[name] != want {
					return fmt.Errorf("%s is\n%s\nwant\n%s", name, now[name], want)
				}
			}
			return nil
		})
		took := time.Since(begin)
		deeds++
		if took > worst {
			worst, worstWhat = took, what
		}
		for _, n := range names {
			_, name, _ := strings.Cut(n, "/")
			spoke := func() bool { return logs(replicas, "restored webhook configuration", name) > said[n] }
			for asked := time.Now(); !spoke() && time.Since(asked) < 5*time.Second; { // it logs after the API server has answered
				time.Sleep(50 * time.Millisecond)
			}
			if !spoke() {
				silent++
				t.Errorf("%s: no line of the log says that %s was restored", what, name)
			}
		}
	}
	var names []string
	for name := range before {
		names = append(names, name)
		do("deleting "+name, []string{name}, func() string { return p.kubectl("delete", name) })
	}
	do("deleting all", names, func() string { return p.kubectl(append([]string{"delete"}, names...)...) })
	for _, name := range names {
		if strings.Contains(before[name], "webhooks:0") {
			continue // nothing to edit
		}
		for i, h := range hands {
			if short && i%5 != deeds%5 {
				continue
			}
			do(h.what+" of "+name, []string{name}, func() string { return p.kubectl("patch", name, "--type="+h.kind, "-p", h.patch) })
		}
	}
	suite.Until(p.T, "the policy is enforced", func() error { return p.Enforced(t.Context()) })
	figure(t, fmt.Sprintf("%d deeds on %d configurations, the slowest restored", deeds, len(before)), worst.Round(100*time.Millisecond), "within 60 s", worst < time.Minute)
	figure(t, "of them without a line in the log", silent, "0", silent == 0)
	t.Log("the slowest: " + worstWhat)
}

const addLabel = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: add-label}
spec:
  rules:
  - name: label
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [default]}}]}
    mutate:
      patchStrategicMerge: {metadata: {labels: {+(seen): "yes"}}}
`

// configurations returns all webhook configurations as text, without fields that the API server sets.
func (p *installation) configurations() map[string]string {
	out := map[string]string{}
	all := metav1.ListOptions{}
	validating, err := p.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(p.Context(), all)
	if err != nil {
		return map[string]string{"": err.Error()}
	}
	for _, c := range validating.Items {
		out["validatingwebhookconfiguration/"+c.Name] = text(c.ObjectMeta, len(c.Webhooks), c.Webhooks)
	}
	mutating, err := p.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(p.Context(), all)
	if err != nil {
		return map[string]string{"": err.Error()}
	}
	for _, c := range mutating.Items {
		out["mutatingwebhookconfiguration/"+c.Name] = text(c.ObjectMeta, len(c.Webhooks), c.Webhooks)
	}
	return out
}

func text(m metav1.ObjectMeta, count int, webhooks any) string {
	return fmt.Sprintf("webhooks:%d labels:%v annotations:%v owners:%s %s", count, m.Labels, m.Annotations, encode(m.OwnerReferences), encode(webhooks))
}
