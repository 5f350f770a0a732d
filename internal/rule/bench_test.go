package rule_test

import (
	"context"
	"os"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Typical rules for Pods, one for each kind, with Pods that pass and Pods that fail.
var benchRules = []struct{ name, rule string }{
	{"pattern", `
validate:
  message: Host namespaces are not allowed.
  pattern:
    spec:
      =(hostPID): "false"
      =(hostIPC): "false"
      =(hostNetwork): "false"
      containers:
      - =(securityContext): {=(privileged): "false"}
`},
	{"pattern-fail", `
validate:
  message: "{{ request.object.metadata.name }} needs an owner"
  pattern: {metadata: {annotations: {owner: "?*"}}}
`},
	{"anyPattern", `
validate:
  message: Running as root is not allowed.
  anyPattern:
  - spec: {securityContext: {runAsNonRoot: "true"}, containers: [{=(securityContext): {=(runAsNonRoot): "true"}}]}
  - spec: {containers: [{image: "?*"}]}
`},
	{"deny", `
validate:
  message: No default namespace.
  deny:
    conditions:
      any:
      - {key: "{{ request.object.spec.hostNetwork || ` + "`false`" + ` }}", operator: Equals, value: true}
      - {key: "{{ request.namespace }}", operator: AnyIn, value: [kube-system, "forbidden-*"]}
`},
	{"foreach-pattern", `
validate:
  message: An image tag is required.
  foreach:
  - list: request.object.spec.containers
    pattern: {image: "*"}
`},
	{"foreach-deny", `
preconditions:
  all:
  - {key: "{{ request.operation || 'BACKGROUND' }}", operator: NotEquals, value: DELETE}
validate:
  message: All capabilities are to be dropped.
  foreach:
  - list: request.object.spec.[ephemeralContainers, initContainers, containers][]
    deny:
      conditions:
        all:
        - {key: NOTHING, operator: AnyIn, value: "{{ element.securityContext.capabilities.drop[] || ` + "`[]`" + ` }}"}
`},
	{"podSecurity", `
validate:
  podSecurity: {level: baseline, version: latest}
`},
	{"podSecurity-excluded", `
validate:
  podSecurity:
    level: restricted
    version: latest
    exclude:
    - {controlName: Running as Non-root}
    - {controlName: Running as Non-root, images: ["*"]}
    - {controlName: Seccomp}
    - {controlName: Seccomp, images: ["*"]}
`},
	{"verifyImages", `
verifyImages:
- {imageReferences: ["*"], failureAction: Enforce, mutateDigest: false, verifyDigest: true, required: false}
`},
	{"cel", `
validate:
  cel:
    expressions:
    - expression: "!has(object.spec.hostNetwork) || object.spec.hostNetwork == false"
      message: Host namespaces are not allowed.
    - expression: "object.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged)"
      message: Privileged containers are not allowed.
`},
	{"cel-variables", `
validate:
  cel:
    variables:
    - name: containers
      expression: "object.spec.containers + object.spec.?initContainers.orValue([]) + object.spec.?ephemeralContainers.orValue([])"
    expressions:
    - expression: "variables.containers.all(c, c.image.contains(':') && !c.image.endsWith(':latest'))"
      messageExpression: "'no tag: ' + variables.containers.map(c, c.image).join(', ')"
`},
	{"mutate-merge", `
mutate:
  patchStrategicMerge: {metadata: {labels: {+(ephor-team): none}}}
`},
	{"mutate-merge-variable", `
mutate:
  patchStrategicMerge: {metadata: {annotations: {from: "{{ request.object.metadata.name }}"}}}
`},
	{"mutate-json", `
mutate:
  patchesJson6902: '[{op: add, path: /metadata/annotations/ephor, value: x}]'
`},
	{"mutate-foreach", `
mutate:
  foreach:
  - list: request.object.spec.containers
    patchStrategicMerge: {spec: {containers: [{name: "{{ element.name }}", imagePullPolicy: Never}]}}
`},
}

func BenchmarkEval(b *testing.B) {
	raw, err := os.ReadFile("../value/testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	pod, err := value.DecodeJSON(raw)
	if err != nil {
		b.Fatal(err)
	}
	for _, in := range benchRules {
		b.Run(in.name, func(b *testing.B) {
			r := compileRule(b, []byte("name: rule\nmatch: {any: [{resources: {kinds: [Pod]}}]}\n"+in.rule), nil)
			req := request(map[string]any{"object": pod})
			env := &evalenv.Env{Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes)}
			program := &policy.Program{Name: "p"}
			c := &policy.Call{Env: env, Request: req, Program: program, Rule: r}
			y := r.Eval(c)
			if y.Status == policy.StatusError || y.Status == policy.StatusNone {
				b.Fatal(y)
			}
			b.ReportAllocs()
			for b.Loop() {
				env.Meter.Reset(context.Background(), budget.DefaultSteps, budget.DefaultBytes)
				r.Eval(c)
			}
		})
	}
}
