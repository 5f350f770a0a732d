package lint

import (
	"cmp"
	"encoding/json"
	"strings"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/family/celpolicy"
	"github.com/ephor-dev/ephor/internal/family/classic"
	"github.com/ephor-dev/ephor/internal/schema"
	"github.com/ephor-dev/ephor/internal/value"
)

// Check is one likely mistake that is looked for.
type Check struct {
	Name string // as users see it, such as unused-context
	Doc  string // what is wrong with it, and what to do
	// Example is a policy in YAML that the check complains of; none for what the compiler finds.
	Example string

	// slip: what it finds is a mistake however the policy is used, and apply and test warn of it, too (Slips).
	slip bool
	// policy looks at a policy that has no errors.
	policy func(*input)
}

// Finding is what a check found.
type Finding struct {
	Check *Check
	diag.Diagnostic
}

// Options are what the checks know of the world.
type Options struct {
	// Kinds are the kinds whose fields are known; nil are those of Kubernetes.
	Kinds *schema.Kinds
	// Permitted are what the operator of the cluster permits to policies.
	Permitted family.Permissions
}

// Mistake and Caution are the checks under which the diagnostics of the compiler appear.
var (
	Mistake = &Check{Name: "error", Doc: "The policy is refused: at admission, and by apply and test. All mistakes are reported at once."}
	Caution = &Check{Name: "warning", Doc: "The policy is accepted with a warning."}
)

// checks is the frozen registry.
var checks = freeze(wildcardKind, misspeltKind, unusedContext, unreachableRule, functionCall, regularExpression, unclosedVariable, unknownPath, celFields, dataExpansion)

func freeze(list ...*Check) []*Check {
	seen := map[string]bool{Mistake.Name: true, Caution.Name: true}
	for _, c := range diag.Codes() {
		seen[string(c.Code)] = true
	}
	for _, c := range list {
		if c.Name == "" || c.Doc == "" || c.Example == "" || c.policy == nil || seen[c.Name] {
			panic("lint: incomplete or duplicate check " + c.Name)
		}
		seen[c.Name] = true
	}
	return list
}

// Checks lists all checks: those of the compiler, then the others.
func Checks() []*Check { return append([]*Check{Mistake, Caution}, checks...) }

// input is one policy as the checks see it.
type input struct {
	policy   *kyvernov1.ClusterPolicy
	rules    []map[string]any // the authored rules as they were written
	kinds    *schema.Kinds
	check    *Check
	findings []Finding
}

// warn adds a finding of the check at hand.
func (in *input) warn(path, hint, format string, args ...any) {
	var l diag.List
	l.Warnf(path, format, args...)
	if hint != "" {
		l.Hint("%s", hint)
	}
	in.findings = append(in.findings, Finding{in.check, l[0]})
}

// Found is the finding of the compiler that d is.
func Found(d diag.Diagnostic) Finding {
	if d.Severity == diag.Warning {
		return Finding{Caution, d}
	}
	return Finding{Mistake, d}
}

// Code is the code of the diagnostic, or the name of the check where it has none. No code is the name of a check.
func (f Finding) Code() string { return cmp.Or(string(f.Diagnostic.Code), f.Check.Name) }

// Policy looks at one policy of whatever family. A policy with errors is not looked at further: the meaning of the rest is
// unknown then. pos gives positions for field paths; it may be nil.
func Policy(o compile.Object, opts Options) []Finding {
	opts.Permitted.Documents = true
	program, diags := compile.Written(o, opts.Permitted)
	var out []Finding
	for _, d := range diags {
		out = append(out, Found(d))
	}
	if program == nil || diags.HasErrors() {
		return out
	}
	known := opts.Kinds
	if known == nil {
		known = schema.New()
	}
	if strings.HasPrefix(program.APIVersion, celpolicy.Group+"/") {
		for _, d := range celPolicyFields(o.Value, program.Namespace != "", known) {
			if o.Pos != nil {
				d.Pos = o.Pos(d.Path)
			}
			out = append(out, Finding{celFields, d})
		}
	}
	if !classic.Owns(program.APIVersion, program.Kind) {
		return out
	}
	p, _ := classic.Decode(o.Value)
	in := &input{policy: p, kinds: known}
	for i := range p.Spec.Rules {
		in.rules = append(in.rules, tree(p.Spec.Rules[i]))
	}
	for _, c := range checks {
		in.check = c
		c.policy(in)
	}
	for _, f := range in.findings {
		if o.Pos != nil {
			f.Pos = o.Pos(f.Path)
		}
		out = append(out, f)
	}
	return out
}

// tree is a rule as a JSON value.
func tree(r kyvernov1.Rule) map[string]any {
	b, err := json.Marshal(r)
	if err != nil {
		return nil
	}
	v, _ := value.DecodeJSON(b)
	m, _ := v.(map[string]any)
	return m
}
