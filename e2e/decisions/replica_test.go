package decisions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world/fixed"
)

// chance generates random policies and requests that an API server accepts.
type chance struct{ *rand.Rand }

func (c chance) one(of ...string) string { return of[c.IntN(len(of))] }

// marked contains policies whose effect shows that the policies created with them are in force.
const marked = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: marker-%[1]d}
spec:
  background: false
  rules:
  - name: refused
    match: {any: [{resources: {kinds: [ConfigMap], names: [marker-%[1]d]}}]}
    validate: {failureAction: Enforce, message: marked, deny: {}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: stamp-%[1]d}
spec:
  background: false
  rules:
  - name: changed
    match: {any: [{resources: {kinds: [ConfigMap], names: [stamp-%[1]d]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {marker: "%[1]d"}}}}
`

// policies returns some random policies of both families.
func (c chance) policies() (out []string) {
	for i := range 2 + c.IntN(3) {
		name := fmt.Sprintf("p%d", i)
		classic := func(rule string) string {
			return `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: ` + name + `}
spec:
  background: false
  failurePolicy: ` + c.one("Fail", "Ignore") + "\n" + c.one("", "  emitWarning: true\n") + `  rules:
  - name: r
    match: {any: [{resources: {kinds: [` + c.one("ConfigMap", "Deployment", "Pod, ConfigMap", "ConfigMap, Deployment", "Pod, ConfigMap, Deployment") + `], namespaces: ` + c.one("[shop]", "[shop, lab]") +
				c.one("", ", operations: [CREATE]", ", operations: [CREATE, DELETE]", ", operations: [UPDATE]") + `}}]}
` + c.one("", "    exclude: {any: [{subjects: [{kind: User, name: root-*}]}]}\n", "    preconditions: {all: [{key: \"{{request.object.metadata.name || 'none'}}\", operator: NotEquals, value: a}]}\n") + rule
		}
		celRule := c.one(`{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods, configmaps]}`,
			`{apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: [deployments]}`,
			`{apiGroups: [""], apiVersions: [v1], operations: [CREATE, DELETE], resources: [configmaps]}`)
		switch c.IntN(6) {
		case 0, 1:
			out = append(out, classic(`    validate:
      failureAction: `+c.one("Enforce", "Audit")+`
      message: a team is needed in {{request.namespace}}
      `+c.one(`pattern: {metadata: {labels: {team: "?*"}}}`,
				`deny: {conditions: {any: [{key: "{{request.userInfo.username}}", operator: Equals, value: "eve-*"}]}}`,
				`deny: {conditions: {any: [{key: "{{request.operation}}", operator: AnyIn, value: [UPDATE, DELETE]}]}}`,
				`deny: {conditions: {any: [{key: "{{ request.object.metadata.labels.team || '' }}", operator: Equals, value: b}]}}`)+"\n"))
		case 2:
			out = append(out, classic(`    mutate:
      `+c.one(`patchStrategicMerge: {metadata: {labels: {+(team): added, by: "{{request.userInfo.username}}"}}}`,
				`patchStrategicMerge: {metadata: {annotations: {seen: "{{ request.object.metadata.labels.team || 'none' }}"}}}`)+"\n"))
		case 3:
			out = append(out, classic(`    context: [{name: teams, configMap: {name: teams, namespace: default}}]
    validate:
      failureAction: `+c.one("Enforce", "Audit")+`
      message: not a known team
      deny: {conditions: {any: [{key: "{{ request.object.metadata.labels.team || '' }}", operator: AnyNotIn, value: "{{ teams.data.list }}"}]}}
`))
		case 4:
			out = append(out, `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: `+name+`}
spec:
  validationActions: `+c.one("[Deny]", "[Audit]", "[Warn]", "[Deny, Warn]")+`
  failurePolicy: `+c.one("Fail", "Ignore")+`
  matchConstraints: {resourceRules: [`+celRule+`], namespaceSelector: {matchLabels: {work: "yes"}}}
`+c.one("", "  matchConditions: [{name: c, expression: '!request.userInfo.username.startsWith(\"root\")'}]\n")+`  validations:
  - `+c.one(`{expression: "object == null || has(object.metadata.labels) && 'team' in object.metadata.labels", message: a team is needed}`,
				`{expression: "object.metadata.labels.team != 'b'", messageExpression: "'not ' + object.metadata.labels.team"}`,
				`{expression: "request.operation != 'UPDATE' || oldObject.metadata.name == 'a'", message: only a is changed}`)+"\n")
		case 5:
			out = append(out, `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: `+name+`}
spec:
  failurePolicy: `+c.one("Fail", "Ignore")+`
  matchConstraints: {resourceRules: [`+c.one(`{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}`, `{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}`)+`], namespaceSelector: {matchLabels: {work: "yes"}}}
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: Object.metadata.labels{cel: 'set'}}}"}}
`)
		}
	}
	return out
}

// asked is a request and the API server's answer.
type asked struct {
	what     string
	allowed  bool
	message  string
	warnings []string
	metadata string // labels and annotations of the object in the API server's answer
}

// warned collects the warnings of one request.
type warned struct {
	mu   sync.Mutex
	list []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warned) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

var resources = map[string]schema.GroupVersionResource{
	"Pod": {Version: "v1", Resource: "pods"}, "ConfigMap": {Version: "v1", Resource: "configmaps"}, "Deployment": {Group: "apps", Version: "v1", Resource: "deployments"},
}

// object returns a random object of a kind.
func (c chance) object(kind, namespace, name string) *unstructured.Unstructured {
	version, rest := "v1", `data: {a: b}`
	containers := `containers: [{name: c, image: nginx}]`
	switch kind {
	case "Pod":
		rest = `spec: {` + containers + `}`
	case "Deployment":
		version, rest = "apps/v1", `spec: {replicas: 0, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {`+containers+`}}}`
	}
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: %s%s}\n%s", version, kind, name, namespace,
		c.one("", ", labels: {team: a}", `, labels: {team: b, bad: "1"}`, ", labels: {own: x}"), rest)
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		panic(err) // a mistake in the text above
	}
	return o
}

// ask sends one random request as a dry run.
func (c chance) ask(ctx context.Context, number int) (asked, error) {
	w := &warned{}
	config := rest.CopyConfig(cluster.Config)
	user := c.one("jane", "eve", "root") + "-" + strconv.Itoa(number) // no two requests are equal
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}, Extra: map[string][]string{"request": {strconv.Itoa(number)}}}
	config.WarningHandler = w
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return asked{}, err
	}
	kind, namespace := c.one("Pod", "ConfigMap", "ConfigMap", "Deployment"), c.one("shop", "shop", "shop", "lab", "default")
	at := client.Resource(resources[kind]).Namespace(namespace)
	operation := c.one("CREATE", "CREATE", "UPDATE", "DELETE")
	if kind == "Pod" {
		operation = "CREATE" // without a kubelet no Pod stays
	}
	var object *unstructured.Unstructured
	dry := []string{metav1.DryRunAll}
	switch operation {
	case "CREATE":
		object, err = at.Create(ctx, c.object(kind, namespace, "new-"+c.one("a", "b")), metav1.CreateOptions{DryRun: dry})
	case "UPDATE":
		object, err = at.Update(ctx, c.object(kind, namespace, c.one("a", "b")), metav1.UpdateOptions{DryRun: dry})
	case "DELETE":
		err = at.Delete(ctx, c.one("a", "b"), metav1.DeleteOptions{DryRun: dry})
	}
	out := asked{what: fmt.Sprintf("%s %s in %s by %s", operation, kind, namespace, user), allowed: err == nil, warnings: w.list}
	if err != nil {
		status := apierrors.APIStatus(nil)
		if !errors.As(err, &status) || !strings.Contains(err.Error(), "denied the request: ") {
			return out, fmt.Errorf("%s: %w", out.what, err)
		}
		_, out.message, _ = strings.Cut(status.Status().Message, "denied the request: ")
		return out, nil
	}
	if object != nil {
		out.metadata = metadataOf(object.Object)
	}
	return out, nil
}

// metadataOf returns the labels and annotations of an object.
func metadataOf(object map[string]any) string {
	o := unstructured.Unstructured{Object: object}
	return fmt.Sprint(o.GetLabels(), o.GetAnnotations())
}

// TestReplicaOnACluster checks on a real API server, for random policies of both families and random requests, that the impact of the
// recorded requests equals the API server's answers. internal/impact/replica_test.go has many more policies, without a cluster.
func TestReplicaOnACluster(t *testing.T) {
	rounds, requests := uint64(8), 50
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	admission := cluster.Start(t, devcluster.Admission, "--decisions="+file, "--decisionsShare=1", "--decisionsRequests", "--redact=")
	suite.Eventually(t, func() error { // policies of other tests
		_, err := cluster.Try(t, "", "delete", "clusterpolicies", "--all")
		return err
	})
	cluster.Apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {work: "yes"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: lab, labels: {work: "yes"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: teams, namespace: default}
data: {list: '["a"]'}
`)
	c := chance{rand.New(rand.NewPCG(0, 19))}
	for _, namespace := range []string{"shop", "lab", "default"} {
		for _, kind := range []string{"ConfigMap", "Deployment"} {
			for _, name := range []string{"a", "b"} {
				text, err := c.object(kind, namespace, name).MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				cluster.Apply(t, string(text))
			}
		}
		suite.Eventually(t, func() error { // Pods need it
			_, err := cluster.Client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
			return err
		})
	}
	var rows [][]asked
	var programs [][]*policy.Program
	for seed := range rounds {
		c := chance{rand.New(rand.NewPCG(seed, 20))}
		texts := c.policies()
		compiled, manifest := compiledAll(t, texts)
		all := strings.Join(append(manifest, fmt.Sprintf(marked, seed)), "---")
		cluster.Apply(t, all)
		inForce(t, int(seed))
		var answers []asked
		for i := range requests {
			a, err := c.ask(t.Context(), int(seed)*requests+i)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, all)
			}
			answers = append(answers, a)
		}
		rows, programs = append(rows, answers), append(programs, compiled)
		cluster.Must(t, all, "delete", "-f", "-")
	}
	suite.Until(t, "the webhooks of the last policies are removed", func() error { // without a server they would refuse the cleanup
		names := cluster.Must(t, "", "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "jsonpath={.items[*].webhooks[*].name}")
		if strings.Contains(names, ".kyverno.svc-") {
			return errors.New(names)
		}
		return nil
	})
	suite.Stop(t, admission) // everything is recorded

	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	replicas := make([]*impact.Replica, rounds)
	for i := range replicas {
		replicas[i] = impact.NewReplica(programs[i], impact.Options{Root: fixed.New(fixed.Values{Objects: func() ([]map[string]any, error) {
			return []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "teams", "namespace": "default"}, "data": map[string]any{"list": `["a"]`}}}, nil
		}}), Labels: func(ctx context.Context, namespace string) (map[string]string, error) {
			n, err := cluster.Client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return n.Labels, nil
		}})
	}
	seen, compared := map[string]int{}, map[int]bool{}
	for record := range impact.Decisions(time.Time{}, impact.DecisionFile(file, f)) {
		if errors.Is(record.Err, impact.ErrSameRequest) || record.Decision == nil && record.Err == nil {
			continue
		}
		if record.Err != nil {
			t.Fatal(record.Err)
		}
		text := record.Decision.Request.UserExtra["request"]
		if len(text) != 1 {
			continue // a request of the markers
		}
		number, err := strconv.Atoi(text[0])
		if err != nil {
			t.Fatal(err)
		}
		req, err := record.Request()
		if err != nil {
			t.Fatal(err)
		}
		got, err := replicas[number/requests].Answer(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if compared[number] {
			t.Errorf("request %d is recorded as two requests", number)
		}
		compared[number] = true
		want := rows[number/requests][number%requests]
		differs(t, number, want, req, &got, seen)
	}
	// A request without a record reached no rule, and was admitted.
	for number := range int(rounds) * requests {
		if want := rows[number/requests][number%requests]; !compared[number] && (!want.allowed || len(want.warnings) > 0) {
			t.Errorf("request %d is not recorded: %+v", number, want)
		}
	}
	t.Logf("%d of %d requests reached a rule: %v", len(compared), int(rounds)*requests, seen)
	for _, class := range []string{"refused", "admitted", "changed", "warned"} {
		if seen[class] < 3 {
			t.Errorf("only %d requests are %s: the test proves little", seen[class], class)
		}
	}
}

// compiledAll compiles the policies that the review admits, and also returns their texts.
func compiledAll(t *testing.T, texts []string) (programs []*policy.Program, manifest []string) {
	t.Helper()
	for _, text := range texts {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err, text)
		}
		p, diags := compile.One(compile.Object{Value: object})
		if diags.HasErrors() {
			t.Fatal(diags, text)
		}
		programs, manifest = append(programs, p), append(manifest, text)
	}
	cat := catalog.New()
	cat.Set(programs...)
	return cat.Snapshot().Programs(), manifest
}

// inForce waits until the policies of a round are in force: they are ready, and the markers have their effect.
func inForce(t *testing.T, seed int) {
	t.Helper()
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicies", "--all")
	for _, kind := range []string{"validatingpolicies", "mutatingpolicies"} {
		if names := strings.TrimSpace(cluster.Must(t, "", "get", kind, "-o", "name")); names != "" {
			cluster.Must(t, "", "wait", "--for=jsonpath={.status.conditionStatus.ready}=true", kind, "--all")
		}
	}
	marker := func(name string) (string, error) {
		return cluster.Try(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d, namespace: default}\n", name, seed), "create", "--dry-run=server", "-o", "yaml", "-f", "-")
	}
	suite.Until(t, "the policies are in force", func() error {
		if out, err := marker("marker"); err == nil || !strings.Contains(err.Error(), "marked") {
			return fmt.Errorf("%s, %v", out, err)
		}
		if out, err := marker("stamp"); err != nil || !strings.Contains(out, fmt.Sprintf("marker: %q", strconv.Itoa(seed))) {
			return fmt.Errorf("%s, %v", out, err)
		}
		return nil
	})
}

// ownDecision is the line at the end of a replica's answer that names its own record of the decision.
var ownDecision = regexp.MustCompile(`\n?decision [0-9a-f-]{36} \(ephor why [^)]*\)\s*$`)

// differs reports differences between the impact and the API server's answer.
func differs(t *testing.T, number int, want asked, req *policy.Request, got *impact.Verdict, seen map[string]int) {
	t.Helper()
	if got.Allowed != want.allowed {
		t.Errorf("request %d, %s: the API server's answer is %t %q; impact says %t %q", number, want.what, want.allowed, want.message, got.Allowed, got.Message)
		return
	}
	denials := map[*policy.Program]bool{}
	for i := range got.Results {
		if r := &got.Results[i]; r.Status != policy.StatusPass && r.Status != policy.StatusSkip && r.Action.Has(policy.Deny) {
			denials[r.Program] = true
		}
	}
	if !got.Allowed {
		seen["refused"]++
		// The API server calls webhooks concurrently, so which of several denials it returns is random.
		if len(denials) <= 1 && strings.TrimSpace(got.Message) != strings.TrimSpace(ownDecision.ReplaceAllString(want.message, "")) {
			t.Errorf("request %d, %s: the API server's answer is %q; impact says %q", number, want.what, want.message, got.Message)
		}
		return
	}
	seen["admitted"]++
	sorted := func(list []string) []string {
		out := map[string]bool{}
		for _, text := range list {
			out[strings.TrimSpace(text)] = true
		}
		return slices.Sorted(maps.Keys(out))
	}
	if a, b := sorted(want.warnings), sorted(got.Warnings); !slices.Equal(a, b) {
		t.Errorf("request %d, %s: the API server warns %q; impact says %q", number, want.what, a, b)
	}
	if len(want.warnings) > 0 {
		seen["warned"]++
	}
	if got.Object != nil {
		seen["changed"]++
	}
	if want.metadata == "" {
		return
	}
	object := req.Object
	if got.Object != nil {
		object = got.Object
	}
	tree, err := object.Map()
	if err != nil {
		t.Fatal(err)
	}
	if have := metadataOf(tree); have != want.metadata {
		t.Errorf("request %d, %s: the object of the API server has %s; that of impact %s", number, want.what, want.metadata, have)
	}
}
