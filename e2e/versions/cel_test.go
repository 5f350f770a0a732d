package versions

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world/fixed"
)

//go:embed testdata/expressions.txt
var expressionFile string

// corrected has the expressions for which older API servers have a wrong value, with the version that corrected it. Here they have the right one:
// before 1.33, containsCIDR is false for a smaller network with another address.
var corrected = map[string]kubeversion.Minor{"cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')": 33}

// An expression compiles here if it compiles in the API server, and has the value that it has there. What needs exactly this version compiles
// here, since stored policies may have it.
func TestCEL(t *testing.T) {
	version := server(t)
	var all []string
	for line := range strings.Lines(expressionFile) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	made := 50
	if whole() {
		made = 400
	}
	all = append(all, random(made)...)
	accepted := compiles(t, all)
	ours := make([]string, len(all))
	var comparable []string
	later := 0
	for i, e := range all {
		ours[i] = verdictOf(t, e, version)
		if !accepted[i] && verdictOf(t, e, version-1) == "refused" {
			// The API server accepts a function of its own version in stored policies only, so that it can be downgraded.
			later++
			continue
		}
		if (ours[i] != "refused") != accepted[i] {
			t.Errorf("%s: accepted by the API server: %t; here: %s", e, accepted[i], ours[i])
			continue
		}
		// These need the requester's rights, or the namespace, which the offline evaluation does not have.
		if accepted[i] && !strings.Contains(e, "authorizer") && !strings.Contains(e, "namespaceObject") && !strings.Contains(e, "userInfo") {
			comparable = append(comparable, e)
		}
	}
	theirs := values(t, comparable)
	counts := map[string]int{}
	for i, e := range all {
		v, compared := theirs[e]
		if !compared {
			continue
		}
		if counts[v]++; v != ours[i] && version >= corrected[e] {
			t.Errorf("%s: %s in the API server, %s here", e, v, ours[i])
		}
	}
	t.Logf("%d expressions, %d of them refused in new policies by this version and the one before, %d values compared: %v", len(all), later, len(comparable), counts)
}

// vap returns a policy with one validation for each expression, whose message is its number.
func vap(name string, expressions []string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	fail := admissionregistrationv1.Fail
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail,
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{"CREATE"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}}}},
	}}
	for i, e := range expressions {
		p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{Expression: e, Message: fmt.Sprintf("number %d", i)})
	}
	return p
}

// compiles asks the API server which expressions it accepts.
func compiles(t *testing.T, all []string) []bool {
	t.Helper()
	out := make([]bool, len(all))
	for i, e := range all {
		_, err := cluster.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), vap("versions-one", []string{e}), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsInvalid(err) {
			t.Fatalf("%s: %v", e, err)
		}
		out[i] = err == nil
	}
	return out
}

// perPolicy is the number of expressions in a policy: the API server limits the cost of all of them together.
const perPolicy = 20

// values returns the values of expressions in the API server: true, false or error.
func values(t *testing.T, all []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for first := 0; first < len(all); first += perPolicy {
		part := all[first:min(first+perPolicy, len(all))]
		name := fmt.Sprintf("versions-%d", first)
		// The last validation always fails, which shows that the policy is in force.
		p := vap(name, append(append([]string{}, part...), "false"))
		api := cluster.Client.AdmissionregistrationV1()
		if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn},
		}}
		if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var warnings []string
		eventually(t, func() error {
			warnings = warningsOf(t)
			for _, w := range warnings {
				if strings.Contains(w, fmt.Sprintf("'%s'", name)) && strings.Contains(w, fmt.Sprintf("number %d", len(part))) {
					return nil
				}
			}
			return errors.New("the policy is not in force")
		})
		for i, e := range part {
			out[e] = "true"
			for _, w := range warnings {
				if !strings.Contains(w, fmt.Sprintf("'%s'", name)) {
					continue
				}
				switch {
				case strings.HasSuffix(w, fmt.Sprintf("number %d", i)):
					out[e] = "false"
				case strings.Contains(w, "expression '"+e+"' resulted in error"):
					out[e] = "error"
				}
			}
		}
		_ = api.ValidatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{})
		_ = api.ValidatingAdmissionPolicies().Delete(t.Context(), name, metav1.DeleteOptions{})
	}
	return out
}

// heard collects warnings.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, text)
}

// warningsOf creates the object of the expressions, and returns the warnings.
func warningsOf(t *testing.T) []string {
	t.Helper()
	h := &heard{}
	config := rest.CopyConfig(cluster.Config)
	config.WarningHandler = h
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}, Data: map[string]string{"a": "1", "b": "2", "c": "3"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	return h.all
}

// verdictOf returns the value of an expression here: true, false or error, or refused if it does not compile for the version.
func verdictOf(t *testing.T, e string, version kubeversion.Minor) string {
	t.Helper()
	object := map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": "p"},
		"spec": map[string]any{
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"configmaps"}}}},
			"validations":      []any{map[string]any{"expression": e}},
		},
	}
	program, diags := compile.With(compile.Object{Value: object}, nil, family.Options{Server: version})
	if diags.HasErrors() {
		return "refused"
	}
	evaluator := offline.New([]*policy.Program{program}, fixed.New(fixed.Values{}), clivalues.New(nil, nil))
	config := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
		"data": map[string]any{"a": "1", "b": "2", "c": "3"},
	}
	request, err := evaluator.Request(program, config, policy.Create)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := evaluator.OfRequest(request).Each(context.Background(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if len(a.Results) == 0 {
			continue
		}
		switch a.Results[0].Status {
		case policy.StatusPass:
			return "true"
		case policy.StatusFail:
			return "false"
		}
		return "error"
	}
	return "nothing"
}

// random returns expressions that are made of typed terms, the same each time.
func random(n int) (out []string) {
	g := generator{rand.New(rand.NewSource(37))} //nolint:gosec // the same expressions each time
	for range n {
		out = append(out, g.boolean(3))
	}
	return out
}

type generator struct{ *rand.Rand }

func (g generator) pick(all ...string) string { return all[g.Intn(len(all))] }

func (g generator) boolean(depth int) string {
	if depth == 0 {
		return g.pick("true", "false", "has(object.data.a)", "has(object.data.x)")
	}
	switch g.Intn(8) {
	case 0:
		return g.number(depth-1) + g.pick(" < ", " == ", " >= ", " != ") + g.number(depth-1)
	case 1:
		return g.text(depth-1) + g.pick(" == ", " != ", " < ") + g.text(depth-1)
	case 2:
		return "(" + g.boolean(depth-1) + g.pick(" && ", " || ", " == ") + g.boolean(depth-1) + ")"
	case 3:
		return "!(" + g.boolean(depth-1) + ")"
	case 4:
		return g.list(depth-1) + g.pick(".exists(x, ", ".all(x, ") + "x" + g.pick(" > ", " == ") + g.number(depth-1) + ")"
	case 5:
		return g.text(depth-1) + g.pick(".startsWith(", ".contains(", ".matches(") + g.text(depth-1) + ")"
	case 6:
		return g.number(depth-1) + " in " + g.list(depth-1)
	}
	return g.list(depth-1) + g.pick(" == ", ".isSorted() == ", ".includes("+g.number(0)+") == ") + g.pick(g.list(depth-1), g.boolean(0))
}

func (g generator) number(depth int) string {
	if depth == 0 {
		return g.pick("0", "1", "-1", "7", "9223372036854775807", "size(object.data)", "int(object.data.a)")
	}
	switch g.Intn(4) {
	case 0:
		return "(" + g.number(depth-1) + g.pick(" + ", " - ", " * ", " / ", " % ") + g.number(depth-1) + ")"
	case 1:
		return "size(" + g.pick(g.text(depth-1), g.list(depth-1)) + ")"
	case 2:
		return g.list(depth-1) + g.pick(".sum()", ".max()", ".min()", "[0]")
	}
	return "(" + g.boolean(depth-1) + " ? " + g.number(depth-1) + " : " + g.number(depth-1) + ")"
}

func (g generator) text(depth int) string {
	if depth == 0 {
		return g.pick("''", "'a'", "'1'", "'ab'", "object.data.a", "object.data.x", "object.metadata.name")
	}
	switch g.Intn(4) {
	case 0:
		return "(" + g.text(depth-1) + " + " + g.text(depth-1) + ")"
	case 1:
		return "string(" + g.number(depth-1) + ")"
	case 2:
		return g.text(depth-1) + g.pick(".upperAscii()", ".trim()", ".substring(1)", ".charAt(0)", ".replace('a', 'b')", ".reverse()")
	}
	return "object.data[" + g.text(depth-1) + "]"
}

func (g generator) list(depth int) string {
	if depth == 0 {
		return g.pick("[1]", "[1, 2, 3]", "[3, 1]", "[0]")
	}
	switch g.Intn(3) {
	case 0:
		return "(" + g.list(depth-1) + " + [" + g.number(depth-1) + "])"
	case 1:
		return g.list(depth-1) + ".map(x, x" + g.pick(" + ", " * ") + g.number(depth-1) + ")"
	}
	return g.list(depth-1) + ".filter(x, x" + g.pick(" > ", " != ") + g.number(depth-1) + ")"
}
