package webhookconf

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/webhookconf/webhooktest"
)

// honest are policies that must always be enforced.
var honest = []string{
	`{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: honest}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "true"}]}}`,
	`{apiVersion: policies.kyverno.io/v1, kind: NamespacedValidatingPolicy, metadata: {name: honest, namespace: team}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "true"}]}}`,
	`{apiVersion: policies.kyverno.io/v1, kind: MutatingPolicy, metadata: {name: honest}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, mutations: []}}`,
	`{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: honest}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod], operations: [CREATE]}}]}, validate: {message: m, deny: {}}}]}}`,
	`{apiVersion: kyverno.io/v1, kind: Policy, metadata: {name: honest, namespace: team}, spec: {webhookConfiguration: {matchConditions: [{name: a, expression: "true"}]}, rules: [{name: r, match: {any: [{resources: {kinds: [Pod], operations: [CREATE]}}]}, validate: {message: m, deny: {}}}]}}`,
}

// FuzzConfigurations: an API server of any supported version accepts the configurations for random policies, and these keep no other policy
// from being enforced.
func FuzzConfigurations(f *testing.F) {
	r := rand.New(rand.NewPCG(17, 17))
	for range 60 {
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	var programs []*policy.Program
	for _, text := range honest {
		p, diags := compile.One(compile.Object{Value: yamlMap(f, text)})
		if diags.HasErrors() {
			f.Fatal(diags)
		}
		programs = append(programs, p)
	}
	servers := []discovery.Version{{Major: 1, Minor: 29}, {Major: 1, Minor: 32}, {Major: 1, Minor: 33}, {Major: 1, Minor: 35}}
	f.Fuzz(func(t *testing.T, data []byte) {
		all := slices.Clone(programs)
		for _, object := range webhooktest.Policies(data) {
			if p, _ := compile.One(compile.Object{Value: object}); p != nil {
				all = append(all, p)
			}
		}
		server := servers[len(data)%len(servers)]
		input := in(all...)
		input.Options.Derive = len(data)%2 == 0
		input.Conditions = &Conditions{Version: func() discovery.Version { return server }}
		got, ready, _, err := Desired(input)
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, got, server)
		for _, p := range programs {
			if ready[ProgramKey(p)] != nil || !covered(got, p) {
				t.Errorf("%s is not enforced: %v", ProgramKey(p), ready[ProgramKey(p)])
			}
		}
	})
}

// covered reports whether a webhook of the policy receives creations of Pods.
func covered(c Configurations, p *policy.Program) bool {
	for key, programs := range c.serves {
		if !slices.Contains(programs, p) {
			continue
		}
		for _, o := range all(c) {
			for _, w := range webhooksOf(o) {
				if o.GetName() == key.configuration && w.name() == key.webhook && slices.ContainsFunc(w.rules(), func(r admissionv1.RuleWithOperations) bool {
					return (slices.Contains(r.Resources, "pods") || slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, "*/*") || slices.Contains(r.Resources, "pods/*")) &&
						(slices.Contains(r.Operations, "CREATE") || slices.Contains(r.Operations, "*"))
				}) {
					return true
				}
			}
		}
	}
	return false
}

// accepted reports what an API server rejects in the configurations.
func accepted(t *testing.T, c Configurations, server discovery.Version) {
	t.Helper()
	for _, o := range all(c) {
		if errs := validate(o, server); len(errs) > 0 {
			t.Errorf("%s: %v", o.GetName(), errs.ToAggregate())
		}
		if text, _ := json.Marshal(o); len(text) > 1<<20 {
			t.Errorf("%s has %d bytes", o.GetName(), len(text))
		}
	}
}

// validate makes the API server's checks of a configuration. e2e/webhooks asks API servers instead.
func validate(o client.Object, server discovery.Version) (errs field.ErrorList) {
	meta := field.NewPath("metadata")
	errs = append(errs, validation.ValidateObjectMetaAccessor(o, false, validation.NameIsDNSSubdomain, meta)...)
	names := map[string]bool{}
	for i, w := range webhooksOf(o) {
		at := field.NewPath("webhooks").Index(i)
		errs = append(errs, utilvalidation.IsFullyQualifiedName(at.Child("name"), w.name())...)
		if names[w.name()] {
			errs = append(errs, field.Duplicate(at.Child("name"), w.name()))
		}
		names[w.name()] = true
		for j, r := range w.rules() {
			errs = append(errs, validateRule(&r, at.Child("rules").Index(j))...)
		}
		v := w.validating
		if v == nil {
			m := w.mutating
			v = &admissionv1.ValidatingWebhook{NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector, TimeoutSeconds: m.TimeoutSeconds,
				MatchConditions: m.MatchConditions, ClientConfig: m.ClientConfig}
		}
		if *v.TimeoutSeconds < 1 || *v.TimeoutSeconds > 30 {
			errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), *v.TimeoutSeconds, "out of range"))
		}
		errs = append(errs, metav1validation.ValidateLabelSelector(v.NamespaceSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("namespaceSelector"))...)
		errs = append(errs, metav1validation.ValidateLabelSelector(v.ObjectSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("objectSelector"))...)
		for step := range strings.SplitSeq(strings.TrimPrefix(*v.ClientConfig.Service.Path, "/"), "/") {
			for _, why := range utilvalidation.IsDNS1123Subdomain(step) {
				errs = append(errs, field.Invalid(at.Child("clientConfig", "service", "path"), step, why))
			}
		}
		errs = append(errs, validateConditions(v.MatchConditions, server, at.Child("matchConditions"))...)
	}
	return errs
}

func validateRule(r *admissionv1.RuleWithOperations, at *field.Path) (errs field.ErrorList) {
	lists := map[string][]string{"apiGroups": r.APIGroups, "apiVersions": r.APIVersions}
	for _, o := range r.Operations {
		lists["operations"] = append(lists["operations"], string(o))
		if !slices.Contains([]admissionv1.OperationType{"*", "CREATE", "UPDATE", "DELETE", "CONNECT"}, o) {
			errs = append(errs, field.NotSupported(at.Child("operations"), o, []string{"*"}))
		}
	}
	for _, name := range []string{"apiGroups", "apiVersions", "operations"} {
		if list := lists[name]; len(list) == 0 || len(list) > 1 && slices.Contains(list, "*") || name == "apiVersions" && slices.Contains(list, "") {
			errs = append(errs, field.Invalid(at.Child(name), list, ""))
		}
	}
	if s := *r.Scope; s != "*" && s != "Cluster" && s != "Namespaced" {
		errs = append(errs, field.NotSupported(at.Child("scope"), s, []string{"*"}))
	}
	of, sub, single, plain := map[string]bool{}, map[string]bool{}, false, false
	for _, name := range r.Resources {
		resource, subresource, found := strings.Cut(name, "/")
		switch {
		case name == "", name == "*/*" && len(r.Resources) > 1, found && (of[resource] || sub[subresource]):
			errs = append(errs, field.Invalid(at.Child("resources"), r.Resources, name))
		case found:
			of[resource] = of[resource] || subresource == "*"
			sub[subresource] = sub[subresource] || resource == "*"
		case name == "*":
			single = true
		default:
			plain = true
		}
	}
	if len(r.Resources) == 0 || single && plain {
		errs = append(errs, field.Invalid(at.Child("resources"), r.Resources, ""))
	}
	return errs
}

// serverCompilers are the compilers of API servers, by the version with which they are compatible; compiled holds their results.
var serverCompilers, compiled sync.Map

func validateConditions(list []admissionv1.MatchCondition, server discovery.Version, at *field.Path) (errs field.ErrorList) {
	if len(list) > 64 {
		errs = append(errs, field.TooMany(at, len(list), 64))
	}
	names := map[string]bool{}
	for i, c := range list {
		at := at.Index(i)
		for _, why := range utilvalidation.IsQualifiedName(c.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), c.Name, why))
		}
		if names[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
		expression := strings.TrimSpace(c.Expression)
		if expression == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
			continue
		}
		made, _ := serverCompilers.LoadOrStore(server, sync.OnceValue(func() celplugin.Compiler {
			return celplugin.NewCompiler(environment.MustBaseEnvSet(version.MajorMinor(server.Major, server.Minor)))
		}))
		key := fmt.Sprint(server, expression)
		result, known := compiled.Load(key)
		if !known {
			result = ""
			if err := made.(func() celplugin.Compiler)().CompileCELExpression(&matchconditions.MatchCondition{Expression: expression},
				celplugin.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions).Error; err != nil {
				result = err.Error()
			}
			compiled.Store(key, result)
		}
		if result != "" {
			errs = append(errs, field.Invalid(at.Child("expression"), expression, result.(string)))
		}
	}
	return errs
}
