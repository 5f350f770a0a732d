package soak

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// tenantName is the user who has the ClusterRole admin in the namespace of that name, and nothing else.
const tenantName = "tenant"

// A tenant does everything at once that rows T15 to T25 of docs/security/threat-model.md are about, while others create Pods under the 18
// policies of examples/pod-security and those of examples/pod-security-cel. In turn the tenant sends as many harmless requests of the same
// sizes. Each controller runs in a memory cgroup with the chart's limit.
func TestTenant(t *testing.T) {
	const rounds, others = 5, 4
	phase := lasting(time.Minute)
	p := &installation{t, suite.New(t, suite.Options{Values: "standard"})} // the controllers may read exceptions
	p.apply(suite.RequireTeam)
	flags := []string{"--enablePolicyException", "--exceptionNamespace=" + tenantName}
	components := []string{devcluster.Admission, devcluster.Background, devcluster.Reports, devcluster.Cleanup}
	running, groups := map[string]*devcluster.Replica{}, map[string]*memoryGroup{}
	for _, component := range components {
		limit := 128 << 20
		if component == devcluster.Admission {
			running[component], limit = p.start(1, flags...)[0], 384<<20
		} else {
			running[component] = p.Start(t, component)
		}
		groups[component] = confine(t, component, running[component].PID(), limit)
	}
	p.podSecurity()
	p.kubectl("apply", "-f", p.examples(celPolicies))
	p.kubectl("wait", "--for=jsonpath={.status.conditionStatus.ready}=true", "validatingpolicies", "--all")
	p.apply(execPolicy)
	p.kubectl("create", "namespace", tenantName)
	p.kubectl("create", "rolebinding", "admin", "--clusterrole=admin", "--user="+tenantName, "-n", tenantName)
	p.kubectl("create", "serviceaccount", "shop", "-n", tenantName)
	c := p.podClient(others)
	suite.Until(p.T, "the policies are enforced", c.enforced)

	var admitted, sent atomic.Int64
	measure := func(hostile bool) time.Duration {
		p.setUp(hostile)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for _, a := range attacks {
			do := a.prepare(p, hostile)
			for range max(1, a.clients) {
				wg.Go(func() { repeat(stop, a.every, func() { do(); sent.Add(1) }) })
			}
		}
		wg.Go(func() { // violating Pods of others
			bad := p.podClient(1)
			repeat(stop, 200*time.Millisecond, func() {
				if refusal, err := bad.create(0, bad.bad); err == nil && refusal == "" {
					admitted.Add(1)
				}
			})
		})
		time.Sleep(lasting(5 * time.Second)) // until the tenant's initial allowance is used up
		times, err := c.times(phase, 20*time.Millisecond)
		if hostile {
			p.enforcedMeanwhile()
		}
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
		t.Logf("round %d: p99 of others %v beside harmless requests of the tenant, %v beside hostile ones", i, without, with)
		ratios = append(ratios, float64(with)/float64(without))
	}
	for _, component := range components {
		if err := suite.Alive(running[component]); err != nil {
			t.Error(err)
		}
		tell(t, "most memory of the "+component+" controller, with pages of files", fmt.Sprintf("%.0f MB", groups[component].peakMB(t)))
	}
	tell(t, "requests of the tenant", sent.Load())
	figure(t, "violating Pods of others admitted", admitted.Load(), "0", admitted.Load() == 0)
	figure(t, fmt.Sprintf("p99 of others beside the hostile tenant, median of %d rounds", rounds), fmt.Sprintf("%.2f x", median(ratios)), "at most 1.5 x", median(ratios) <= 1.5)
}

// execPolicy asks about CONNECT requests (T20).
const execPolicy = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: no-exec-as-root}
spec:
  background: false
  rules:
  - name: exec
    match: {any: [{resources: {kinds: [Pod/exec], operations: [CONNECT]}}]}
    validate: {failureAction: Enforce, message: "no", deny: {conditions: {any: [{key: "{{ request.object.container || '' }}", operator: Equals, value: root}]}}}
`

// setUp replaces the objects of the tenant by harmless or hostile ones. What is refused does not exist afterwards.
func (p *installation) setUp(hostile bool) {
	p.Helper()
	for _, kind := range []string{"policies.kyverno.io", "namespacedvalidatingpolicies.policies.kyverno.io", "policyexceptions.policies.kyverno.io"} {
		p.kubectl("delete", kind, "-n", tenantName, "--all")
	}
	var stored strings.Builder
	for _, text := range []func(bool) string{costlyPolicy, auditPolicy, exception} {
		stored.WriteString(text(hostile) + "\n---\n")
	}
	_, _ = p.Try(p.T, stored.String(), "apply", "--as="+tenantName, "-f", "-")
}

// enforcedMeanwhile makes a policy of an administrator and waits until it is enforced.
func (p *installation) enforcedMeanwhile() {
	p.Helper()
	p.apply(`apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: meanwhile}
spec:
  background: false
  rules:
  - name: refuse
    match: {any: [{resources: {kinds: [Secret], names: [refused]}}]}
    validate: {failureAction: Enforce, message: refused meanwhile, deny: {}}
`)
	took := suite.Until(p.T, "a new policy of an administrator is enforced", func() error {
		if text, err := p.Try(p.T, "", "create", "secret", "generic", "refused", "--dry-run=server"); err == nil || !strings.Contains(text+err.Error(), "refused meanwhile") {
			return fmt.Errorf("not yet: %s %v", text, err)
		}
		return nil
	})
	figure(p, "a new policy of an administrator was enforced after", took.Round(100*time.Millisecond), "at most 60 s", took <= time.Minute)
	p.kubectl("delete", "clusterpolicies", "meanwhile")
}

// attack is one thing that the tenant does again and again. prepare returns the request.
type attack struct {
	name    string // with the row of the threat model
	every   time.Duration
	clients int // 1 if it is 0
	prepare func(p *installation, hostile bool) func()
}

// attacks are all things that the tenant does.
var attacks = []attack{
	{"T15: dry runs of policies that are expensive to compile", time.Second, 2, func(p *installation, hostile bool) func() {
		pattern := strings.Repeat("[ab]", 300*8)
		if hostile {
			pattern = strings.Repeat("[ab]{0,990}", 300)
		}
		return p.asTenant(http.MethodPost, policiesPath+"?dryRun=All", celPolicy("bomb", "CREATE", `object.metadata.name.matches('`+pattern+`')`))
	}},
	{"T23: dry runs of large policies", 2 * time.Second, 2, func(p *installation, hostile bool) func() {
		return p.asTenant(http.MethodPost, "/apis/kyverno.io/v1/namespaces/"+tenantName+"/policies?dryRun=All", largePolicy(hostile))
	}},
	{"T8, T16: requests that the tenant's policies make expensive", 100 * time.Millisecond, 16, func(p *installation, _ bool) func() {
		return p.asTenant(http.MethodPost, configMapsPath+"?dryRun=All", configMap("costly", 60_000))
	}},
	{"T24: large requests under audit", 200 * time.Millisecond, 8, func(p *installation, _ bool) func() {
		return p.asTenant(http.MethodPost, configMapsPath+"?dryRun=All", configMap("audited", 900_000))
	}},
	{"T17: policies that the API server rejects in a configuration", 3 * time.Second, 1, func(p *installation, hostile bool) func() {
		operation := "UPDATE"
		if hostile {
			operation = "FOO"
		}
		create := p.asTenant(http.MethodPost, policiesPath, celPolicy("freeze", `CREATE, `+operation, "true"))
		remove := p.asTenant(http.MethodDelete, policiesPath+"/freeze", "")
		return func() { create(); time.Sleep(time.Second); remove() }
	}},
	{"T20: half-closed CONNECT requests", time.Second, 1, func(p *installation, hostile bool) func() { return p.connect(hostile) }},
}

const (
	policiesPath   = "/apis/policies.kyverno.io/v1/namespaces/" + tenantName + "/namespacedvalidatingpolicies"
	configMapsPath = "/api/v1/namespaces/" + tenantName + "/configmaps"
)

// asTenant returns a function that sends a request with a YAML body as the tenant. The answer does not matter.
func (p *installation) asTenant(method, path, body string) func() {
	p.Helper()
	config := rest.CopyConfig(p.Config)
	config.Impersonate.UserName = tenantName
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		p.Fatal(err)
	}
	client.Timeout = 30 * time.Second
	encoded, err := yaml.YAMLToJSON([]byte(body))
	if err != nil {
		p.Fatal(err)
	}
	return func() {
		req, err := http.NewRequest(method, config.Host+path, bytes.NewReader(encoded))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
}

// connect returns a function that asks to execute a command in a Pod, over HTTP/1.1. A hostile client ends its half of the connection while the
// webhook is asked.
func (p *installation) connect(hostile bool) func() {
	p.Helper()
	trusted, err := rest.TLSConfigFor(p.Config)
	if err != nil {
		p.Fatal(err)
	}
	trusted.NextProtos = []string{"http/1.1"}
	host := strings.TrimPrefix(p.Config.Host, "https://")
	text := "POST /api/v1/namespaces/" + tenantName + "/pods/none/exec?command=true HTTP/1.1\r\nHost: " + host +
		"\r\nImpersonate-User: " + tenantName + "\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"
	return func() {
		conn, err := net.DialTimeout("tcp", host, 5*time.Second)
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		over := tls.Client(conn, trusted)
		if _, err := io.WriteString(over, text); err == nil && hostile {
			_ = over.CloseWrite()
		}
		_, _ = over.Read(make([]byte, 1024))
	}
}

// celPolicy returns a NamespacedValidatingPolicy on ConfigMaps with one expression.
func celPolicy(name, operations, expression string) string {
	return fmt.Sprintf(`{apiVersion: policies.kyverno.io/v1, kind: NamespacedValidatingPolicy, metadata: {name: %s, namespace: %s}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [%s]}]},
  validations: [{expression: %s}]}}`, name, tenantName, operations, quote(expression))
}

// costlyPolicy returns a Policy whose expressions read all of a large ConfigMap again and again, or a small part of it once.
func costlyPolicy(hostile bool) string {
	expressions := []string{`object.data.a != 'x'`}
	if hostile {
		expressions = []string{
			`object.data.a.matches('(a|aa|aaa)*b' + object.metadata.name)`,
			`object.data.a.find('[ab]*c' + object.metadata.name) == ''`,
			`size(object.data.a.findAll('a?' + object.metadata.name)) >= 0`,
			`size(regex.replace(object.data.a, 'a(a*)' + object.metadata.name, 'b')) > 0`,
			`size(yaml.parse(object.data.a)) >= 0`,
		}
	}
	var list []string
	for i := range 40 {
		list = append(list, "{expression: "+quote(expressions[i%len(expressions)])+"}")
	}
	return fmt.Sprintf(`{apiVersion: policies.kyverno.io/v1, kind: NamespacedValidatingPolicy, metadata: {name: costly, namespace: %s}, spec: {
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]},
  matchConditions: [{name: small, expression: "object.metadata.name == 'costly'"}], validations: [%s]}}`, tenantName, strings.Join(list, ", "))
}

// auditPolicy returns a Policy that audits ConfigMaps. The hostile one reads all of them.
func auditPolicy(hostile bool) string {
	key := "{{ request.object.metadata.name }}"
	if hostile {
		key = "{{ to_upper(request.object.data.a) }}"
	}
	return fmt.Sprintf(`{apiVersion: kyverno.io/v1, kind: Policy, metadata: {name: audit, namespace: %s}, spec: {rules: [{name: audit,
  match: {any: [{resources: {kinds: [ConfigMap], names: [audited]}}]},
  validate: {failureAction: Audit, message: "no", deny: {conditions: {any: [{key: %s, operator: Equals, value: x}]}}}}]}}`, tenantName, quote(key))
}

// exception returns a PolicyException for a policy of the administrator whose condition cannot be evaluated (T25), or is false.
func exception(hostile bool) string {
	condition := "false"
	if hostile {
		condition = "object.metadata.annotations['none'] == 'x'"
	}
	return fmt.Sprintf(`{apiVersion: policies.kyverno.io/v1, kind: PolicyException, metadata: {name: condition, namespace: %s}, spec: {
  policyRefs: [{name: disallow-privileged-containers, kind: ValidatingPolicy}], matchConditions: [{name: c, expression: %s}]}}`, tenantName, quote(condition))
}

// largePolicy returns a Policy of 700 KB: 3,000 rules that search with a regular expression each, or compare.
func largePolicy(hostile bool) string {
	rules := make([]string, 3000)
	for i := range rules {
		key := fmt.Sprintf("{{ contains('%s', request.object.metadata.name) }}", strings.Repeat("a", 40))
		if hostile {
			key = fmt.Sprintf("{{ regex_match('^(a|b){%d}c{1,50}%040d$', request.object.metadata.name) }}", 1+i%50, i)
		}
		rules[i] = fmt.Sprintf(`{name: r%d, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: "no", deny: {conditions: {any: [{key: %s, operator: Equals, value: true}]}}}}`, i, quote(key))
	}
	return fmt.Sprintf("{apiVersion: kyverno.io/v1, kind: Policy, metadata: {name: large, namespace: %s}, spec: {rules: [%s]}}", tenantName, strings.Join(rules, ", "))
}

func configMap(name string, size int) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}, data: {a: %s}}", name, tenantName, quote(strings.Repeat("a", size)))
}

// quote returns a text as YAML reads it.
func quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}
