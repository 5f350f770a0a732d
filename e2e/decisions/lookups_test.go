package decisions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/impact"
)

// lookingUp contains a policy in JMESPath and one in CEL that read the same ConfigMap.
const lookingUp = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: looks-up}
spec:
  background: false
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [taped]}}]}
    context: [{name: known, configMap: {name: known-teams, namespace: default}}]
    validate:
      failureAction: Enforce
      message: "the teams are {{ known.data.list }}"
      deny: {conditions: {any: [{key: "{{ request.object.metadata.labels.team || '' }}", operator: AnyNotIn, value: "{{ known.data.list }}"}]}}
`

const lookingUpInCEL = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: looks-up-in-cel}
spec:
  validationActions: [Warn]
  matchConstraints:
    namespaceSelector: {matchLabels: {taped: "yes"}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations:
  - expression: "dyn(resource.get('v1', 'configmaps', 'default', 'known-teams')).data.list.contains(object.metadata.labels.team)"
    messageExpression: "'CEL sees ' + dyn(resource.get('v1', 'configmaps', 'default', 'known-teams')).data.list"
`

// TestLookupsAreRecorded checks that recorded requests whose rules read a ConfigMap are evaluated with the recorded content, although the
// ConfigMap has changed since, and without a cluster. A lookup that was not recorded is not known.
func TestLookupsAreRecorded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	admission := cluster.Start(t, devcluster.Admission, "--decisions="+file, "--decisionsShare=1", "--decisionsRequests", "--decisionsLookups")
	suite.Eventually(t, func() error { // policies of other tests
		_, err := cluster.Try(t, "", "delete", "clusterpolicies", "--all")
		return err
	})
	known := func(list string) {
		cluster.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: known-teams, namespace: default}\ndata: {list: '"+list+"'}\n")
	}
	cluster.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: taped, labels: {taped: \"yes\"}}\n")
	cluster.RootCA(t, "taped") // otherwise its ConfigMap may be recorded while one of the policies is not in force
	known(`["a"]`)
	const seed = 7001
	programs, manifest := compiledAll(t, []string{lookingUp, lookingUpInCEL})
	all := strings.Join(append(manifest, fmt.Sprintf(marked, seed)), "---")
	cluster.Apply(t, all)
	inForce(t, seed)
	type answer struct{ allowed, warned bool }
	want := map[string]answer{}
	for _, list := range []string{`["a"]`, `["b"]`} {
		known(list)
		for _, team := range []string{"a", "b"} {
			name := "of-" + team + strings.Trim(strings.ReplaceAll(list, `"`, "-"), "[]") + "x"
			ask := func() (string, error) {
				return cluster.Try(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+", namespace: taped, labels: {team: "+team+"}}\n", "create", "--dry-run=server", "-f", "-")
			}
			out, err := ask()
			allowed := strings.Contains(list, team)
			if (err == nil) != allowed || err != nil && !strings.Contains(err.Error(), "the teams are "+list) {
				t.Fatalf("%s: %s, %v", name, out, err)
			}
			want[name] = answer{allowed, !allowed}
		}
	}
	known(`["c"]`)
	cluster.Must(t, all, "delete", "-f", "-")
	suite.Stop(t, admission) // everything is recorded

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	others, _ := compiledAll(t, []string{strings.ReplaceAll(lookingUp, "known-teams", "other-teams")})
	same, other := impact.NewReplica(programs, impact.Options{}), impact.NewReplica(others, impact.Options{})
	seen, unknown := 0, 0
	err = impact.Each(t.Context(), impact.Decisions(time.Time{}, impact.DecisionFile(file, strings.NewReader(string(text)))), same, nil, func(e *impact.Evaluated) {
		if errors.Is(e.Err, impact.ErrSameRequest) || e.Err == nil && e.Request.Namespace != "taped" {
			return
		}
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		w, ok := want[e.Request.Name]
		if !ok {
			return
		}
		list := e.Request.Name[len("of-a-"):len("of-a-a")]
		if e.After.Allowed != w.allowed || (len(e.After.Warnings) > 0) != w.warned || !w.allowed && !strings.Contains(e.After.Message, `the teams are ["`+list+`"]`) ||
			w.warned && !strings.Contains(e.After.Warnings[0], `CEL sees ["`+list+`"]`) {
			t.Errorf("%s: %+v", e.Request.Name, e.After)
		}
		seen++
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen != len(want) {
		t.Errorf("%d of %d requests are answered", seen, len(want))
	}
	err = impact.Each(t.Context(), impact.Decisions(time.Time{}, impact.DecisionFile(file, strings.NewReader(string(text)))), other, nil, func(e *impact.Evaluated) {
		missing := (*impact.NotRecordedError)(nil)
		if errors.As(e.Err, &missing) {
			unknown++
		}
	})
	if err != nil || unknown != len(want) {
		t.Errorf("%d requests are not known to a policy that reads another ConfigMap, want %d, %v", unknown, len(want), err)
	}
}
