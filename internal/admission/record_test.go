package admission

import (
	"context"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// Each review that policies answered is recorded once, with the results of the auditing rules, whatever the answer.
func TestRecords(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"), validatingPolicy("audit", "[Audit]", needsTeam))
	got := make(chan decision.Review, 100)
	srv.Record = func(r decision.Review) { got <- r }
	postReview(t, srv, "/validate/fail", configMap(""))
	if r := <-got; r.Allowed || r.Message == "" || r.Webhook != validatingWebhook || len(r.Results) != 1 || r.Results[0].Status != policy.StatusFail {
		t.Errorf("%+v", r)
	}
	postReview(t, srv, "/vpol/audit", configMap(""))
	if r := <-got; !r.Allowed || len(r.Results) != 1 || r.Results[0].Status != policy.StatusFail || r.Request.UID == "" || r.Policies == [16]byte{} {
		t.Errorf("%+v", r)
	}
	postReview(t, srv, "/validate/fail", configMap(team))
	if r := <-got; !r.Allowed || len(r.Results) != 1 || r.Results[0].Status != policy.StatusPass {
		t.Errorf("%+v", r)
	}
	postReview(t, srv, "/policyvalidate", reviewOf(t, "{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: []}}", "", "jane")) // is not recorded
	postReview(t, srv, "/validate/fail", configMap(""))
	if r := <-got; r.Allowed || r.Webhook != validatingWebhook {
		t.Errorf("%+v", r)
	}
}

// configured is a world with one ConfigMap.
type configured struct{}

func (configured) Get(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
	return map[string]any{"data": map[string]any{"list": `["a"]`}, "metadata": map[string]any{"name": r.Name}}, nil
}

// Lookups of rules before and after the answer are on the tape of the request, if recording is enabled, with the labels of the namespace.
func TestLookupsAreTaped(t *testing.T) {
	policyOf := func(name, action string) string {
		return `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: ` + name + `}
spec:
  background: false
  validationFailureAction: ` + action + `
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    context: [{name: x, configMap: {name: ` + name + `, namespace: default}}]
    validate: {message: m, deny: {conditions: {any: [{key: z, operator: AnyIn, value: "{{ x.data.list }}"}]}}}`
	}
	srv, _ := setup(t, fakeCluster{labels: map[string]map[string]string{"shop": {"tier": "one"}}}, nil, policyOf("before", "Enforce"), policyOf("after", "Audit"))
	srv.root = world.RootFunc(func(world.Reach) world.World { return world.World{Objects: configured{}.Get} })
	for _, lookups := range []bool{true, false} {
		got := make(chan decision.Review, 1)
		srv.Record, srv.Lookups = func(r decision.Review) { got <- r }, lookups
		postReview(t, srv, "/validate/fail", configMap(""))
		r := <-got
		if !lookups {
			if r.Request.Tape != nil {
				t.Error("lookups are taped that are not recorded")
			}
			continue
		}
		var have []string
		for _, e := range r.Request.Tape.Close().Entries {
			have = append(have, e.Method+" "+e.Reach+" "+e.Asked)
		}
		slices.Sort(have)
		if want := `labels  shop, object * ["v1","ConfigMap","default","after"], object * ["v1","ConfigMap","default","before"]`; strings.Join(have, ", ") != want || len(r.Results) != 2 {
			t.Errorf("%s, want %s; %+v", strings.Join(have, ", "), want, r.Results)
		}
	}
}

// Where decisions are recorded and exceptions take effect, a refusal names its decision on a further line. The record has the message alone.
func TestRefusalsNameTheirDecision(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	_, plain := postReview(t, srv, "/validate/fail", configMap(""))
	got := make(chan decision.Review, 10)
	srv.Record = func(r decision.Review) { got <- r }
	if _, a := postReview(t, srv, "/validate/fail", configMap("")); a.Result.Message != plain.Result.Message {
		t.Errorf("without exceptions: %q", a.Result.Message)
	}
	<-got
	srv.Review.Exceptions.Enabled, srv.Review.Exceptions.Namespace = true, "*"
	_, a := postReview(t, srv, "/validate/fail", configMap(""))
	r := <-got
	line, ok := strings.CutPrefix(a.Result.Message, plain.Result.Message)
	if uid := r.Request.UID; !ok || line != "decision "+uid+" (ephor why "+uid+" --exception requests an exception)" || r.Message != plain.Result.Message {
		t.Errorf("%q, recorded %q", a.Result.Message, r.Message)
	}
}
