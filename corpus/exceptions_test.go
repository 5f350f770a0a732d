package corpus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/discovery/discoverytest"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/vapgen"
)

// For random policies, exceptions and objects, admission, scans and the command line agree on every result. An exception that has ended equals none, and
// one of the action Audit changes no status, only what a failure means.
func TestExceptionsAreAlikeAtEveryDoor(t *testing.T) {
	pick := rand.New(rand.NewPCG(38, 1))
	one := func(list ...string) string { return list[pick.IntN(len(list))] }
	exempted, failed, admitted, translated, nativeFailed := 0, 0, 0, 0, 0
	for range 150 {
		c := &Case{}
		add := func(to *[]string, format string, args ...any) {
			found, err := documents([]byte(fmt.Sprintf(format, args...)))
			if err != nil {
				t.Fatal(err)
			}
			*to = append(*to, found...)
		}
		field := one("hostNetwork", "hostPID", "hostIPC")
		add(&c.Policies, `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {validationFailureAction: Enforce, rules: [
			{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {pattern: {spec: {"=(%s)": false}}}}]}}`, field)
		add(&c.Policies, `{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: v}, spec: {autogen: {podControllers: {controllers: []}, validatingAdmissionPolicy: {enabled: true}},
			matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}, validations: [{expression: "!object.spec.?%s.orValue(false)"}]}}`, field)
		template := fmt.Sprintf(`{metadata: {labels: {app: web}}, spec: {%s: true, containers: [{name: c, image: "web:1"}]}}`, field)
		add(&c.World, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, uid: d}, spec: {template: %s}}`, template)
		add(&c.World, `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, namespace: shop, uid: r, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]}, spec: {template: %s}}`, template)
		name, kind := one("web", "web-1-a", "*", "other"), one("Pod", "Deployment")
		annotations := one("", "exceptions.ephor.dev/covers: workload", "exceptions.ephor.dev/action: Audit", "{exceptions.ephor.dev/covers: workload, exceptions.ephor.dev/action: Audit}")
		annotations = strings.Trim(annotations, "{}")
		ended := one("", "exceptions.ephor.dev/expires-at: '2024-02-29T23:59:59Z'", "exceptions.ephor.dev/expires-at: '2024-03-01T00:00:00Z'")
		for _, exception := range []string{
			`{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e, namespace: shop, annotations: {%s}}, spec: {exceptions: [{policyName: p, ruleNames: [r]}], match: {any: [{resources: {kinds: [%s], names: ["%s"]}}]}}}`,
			`{apiVersion: policies.kyverno.io/v1, kind: PolicyException, metadata: {name: e, namespace: shop, annotations: {%s}}, spec: {policyRefs: [{name: v, kind: ValidatingPolicy}],
				matchConditions: [{name: c, expression: "object.kind == '%s' && ('%[3]s' == '*' || object.metadata.name == '%[3]s')"}]}}`,
		} {
			add(&c.Policies, exception, strings.Trim(annotations+", "+ended, ", "), kind, name)
		}
		add(&c.Resources, `{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: %s, controller: true}]},
			spec: {%s: %s, containers: [{name: c, image: "%s"}]}}`, one("web-1-a", "web", "web-1-b"), one("r", "forged"), field, one("true", "true", "false"), one("web:1", "other:1"))

		programs, exceptions := c.split(t)
		inForce := catalog.New()
		inForce.Set(programs...)
		var live []*policy.Exception
		for _, e := range exceptions {
			if !e.Expired(Now) {
				live = append(live, e)
				inForce.SetException(e)
			}
		}
		snapshots := map[string]*catalog.Snapshot{"catalog": inForce.Snapshot(), "command line": catalog.NewStatic(catalog.Join(programs, live))}
		none := catalog.NewStatic(programs)
		var said []string
		results := func(s *catalog.Snapshot, origin policy.RequestOrigin) (string, policy.Outcome) {
			req := c.Request(c.Resources[0], false)
			req.Origin = origin
			out := engine.Eval(context.Background(), engine.Input{Selections: s.For(req, catalog.Route{Stages: policy.StageValidate}), Request: req, Stages: policy.StageValidate, Root: c.Root(false)})
			text := ""
			for _, r := range out.Results {
				text += fmt.Sprintf("%s/%s %s %s %v\n", r.Program.Name, r.Rule.Name, r.Status, r.Action, policy.ExceptionKeys(r.Exceptions))
			}
			return text, out
		}
		for where, s := range snapshots {
			for _, origin := range []policy.RequestOrigin{policy.FromAdmission, policy.FromScan, policy.FromCLI} {
				text, out := results(s, origin)
				if said = append(said, text); text != said[0] {
					t.Fatalf("%s, origin %d:\n%swant\n%s%v", where, origin, text, said[0], c.Policies)
				}
				for _, r := range out.Results {
					switch {
					case r.Admitted:
						admitted++
						if r.Status != policy.StatusFail || r.Action.Has(policy.Deny) {
							t.Fatalf("an admitted failure: %v %v", r.Status, r.Action)
						}
					case r.Status == policy.StatusSkip:
						exempted++
					case r.Status == policy.StatusFail:
						failed++
					}
				}
			}
		}
		// The policy of the API server into which v is translated fails where v does. With an exception that it cannot express there is none.
		if twin := twinOf(t, c, live); twin != nil {
			translated++
			text, _ := results(catalog.NewStatic([]*policy.Program{twin}), policy.FromCLI)
			fails := strings.Contains(text, " fail ")
			if fails {
				nativeFailed++
			}
			if fails != strings.Contains(said[0], "v/ fail") {
				t.Fatalf("the policy of the API server:\n%sours\n%s%v", text, said[0], c.Policies)
			}
		} else if !slices.ContainsFunc(live, func(e *policy.Exception) bool {
			return e.Kind == "PolicyException" && e.ID().Group == "policies.kyverno.io" && (e.Workload || e.Audit)
		}) {
			t.Fatalf("the policy is not translated: %v", c.Policies)
		}
		if without, _ := results(none, policy.FromAdmission); len(live) == 0 && without != said[0] {
			t.Fatalf("ended exceptions say\n%snone\n%s", said[0], without)
		}
	}
	if exempted < 50 || failed < 50 || admitted < 50 || translated < 50 || nativeFailed < 20 {
		t.Errorf("the cases are too alike: %d exempt, %d fail, %d admitted, %d translated, of which %d fail", exempted, failed, admitted, translated, nativeFailed)
	}
}

// split compiles the policies of a case and its exceptions.
func (c *Case) split(t *testing.T) (programs []*policy.Program, exceptions []*policy.Exception) {
	t.Helper()
	for _, text := range c.Policies {
		o := compile.Object{Value: object(text, false)}
		if e, diags := compile.OneException(o); e != nil {
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			exceptions = append(exceptions, e)
			continue
		}
		p, diags := compile.One(o)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		programs = append(programs, p)
	}
	return programs, exceptions
}

// twinOf compiles the ValidatingAdmissionPolicy into which the ValidatingPolicy of the case is translated with the exceptions; nil if the API
// server cannot express it.
func twinOf(t *testing.T, c *Case, exceptions []*policy.Exception) *policy.Program {
	t.Helper()
	var own []*policy.Exception
	for _, e := range exceptions {
		if e.ID().Group == "policies.kyverno.io" {
			own = append(own, e)
		}
	}
	o := object(c.Policies[1], false)
	out, err := vapgen.Of(o["apiVersion"].(string), o["kind"].(string)).Translate(vapgen.Input{Object: o, Exceptions: own, Resources: served})
	if err != nil {
		t.Fatal(err)
	}
	if out.Reason != "" {
		return nil
	}
	of := func(v client.Object, kind string) compile.Object {
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
		if err != nil {
			t.Fatal(err)
		}
		tree["apiVersion"], tree["kind"] = "admissionregistration.k8s.io/v1", kind
		return compile.Object{Value: tree}
	}
	var companions compile.Companions
	if diags := companions.Add(of(out.Binding, "ValidatingAdmissionPolicyBinding")); diags.HasErrors() {
		t.Fatal(diags)
	}
	native := of(out.Policy, "ValidatingAdmissionPolicy")
	program, diags := compile.Product.With(native, companions.Of(compile.IDOf(native)), family.Options{CommandLine: true})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return program
}

// served are the kinds of a cluster.
var served = discovery.New(discoverytest.Cluster, time.Now)
