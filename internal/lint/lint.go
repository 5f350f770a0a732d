package lint

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"
)

// Check finds one kind of likely mistake.
type Check struct {
	Name string // the name that users see, such as unused-context
	Doc  string // what is wrong, and how to correct it
	// Example is a policy in YAML that the check reports; empty for diagnostics of the compiler.
	Example string

	// slip: its findings are mistakes however the policy is used, so apply and test also warn of them (Slips).
	slip bool
	// cause: what it finds makes rules end in errors, so apply also warns of it when a rule did (Causes).
	cause bool
	// policy checks a classic policy that has no errors, program one of any family, and exception an exception with its source. Each check has
	// one of them.
	policy    func(*input)
	program   func(*policy.Program) diag.List
	exception func(object map[string]any, e *policy.Exception) diag.List
}

// Finding is one result of a check.
type Finding struct {
	Check *Check
	diag.Diagnostic
}

// Options are what the checks know about the cluster.
type Options struct {
	// Kinds are the kinds with known fields; nil means those of Kubernetes.
	Kinds *schema.Kinds
	// Permitted is what the operator of the cluster permits policies to do.
	Permitted family.Permissions
}

// Mistake and Caution are the checks for diagnostics of the compiler.
var (
	Mistake = &Check{Name: "error", Doc: "The policy is refused: at admission, and by apply and test. All mistakes are reported at once."}
	Caution = &Check{Name: "warning", Doc: "The policy is accepted with a warning."}
)

// checks is the immutable registry.
var checks = freeze(wildcardKind, misspeltKind, unusedContext, unreachableRule, functionCall, regularExpression, unclosedVariable, unknownPath, celFields, dataExpansion, unseenImage, WideException, targetNamedTwice, virtualResource, laterRequester)

func freeze(list ...*Check) []*Check {
	seen := map[string]bool{Mistake.Name: true, Caution.Name: true}
	for _, c := range diag.Codes() {
		seen[string(c.Code)] = true
	}
	for _, c := range list {
		kinds := 0
		for _, has := range []bool{c.policy != nil, c.program != nil, c.exception != nil} {
			if has {
				kinds++
			}
		}
		if c.Name == "" || c.Doc == "" || c.Example == "" || kinds != 1 || seen[c.Name] {
			panic("lint: incomplete or duplicate check " + c.Name)
		}
		seen[c.Name] = true
	}
	return list
}

// Checks lists all checks: those of the compiler, then the others.
func Checks() []*Check { return append([]*Check{Mistake, Caution}, checks...) }

// input is one policy in the form that checks use.
type input struct {
	policy   *kyvernov1.ClusterPolicy
	rules    []map[string]any // the authored rules, decoded but not defaulted
	kinds    *schema.Kinds
	check    *Check
	findings []Finding
}

// warn adds a finding of the current check.
func (in *input) warn(path, hint, format string, args ...any) {
	var l diag.List
	l.Warnf(path, format, args...)
	if hint != "" {
		l.Hint("%s", hint)
	}
	in.findings = append(in.findings, Finding{in.check, l[0]})
}

// Found returns the finding for a diagnostic of the compiler.
func Found(d diag.Diagnostic) Finding {
	if d.Severity == diag.Warning {
		return Finding{Caution, d}
	}
	return Finding{Mistake, d}
}

// Code returns the code of the diagnostic, or the name of the check if there is none. No code equals the name of a check.
func (f Finding) Code() string { return cmp.Or(string(f.Diagnostic.Code), f.Check.Name) }

// Policy checks one policy of any family. A finding that a newer version of Kubernetes would not have says so.
func Policy(o compile.Object, opts Options) []Finding {
	if opts.Kinds == nil {
		opts.Kinds = schema.New().At(opts.Permitted.Server)
	}
	out := policyFindings(o, opts)
	ofFields := func(f Finding) bool { return f.Check == celFields || f.Check == unknownPath || f.Check == misspeltKind }
	if !slices.ContainsFunc(out, ofFields) {
		return out
	}
	server, dated := opts.Kinds.Server(), make([]bool, len(out))
	for v := server + 1; v <= kubeversion.Newest; v++ {
		newer := opts
		newer.Kinds, newer.Permitted.Server = opts.Kinds.At(v), v
		then := policyFindings(o, newer)
		for i := range out {
			f := &out[i]
			known := slices.ContainsFunc(then, func(t Finding) bool { return t.Check == f.Check && t.Path == f.Path && t.Summary == f.Summary })
			if ofFields(*f) && !known && !dated[i] {
				f.Hint, dated[i] = sinceHint(v, server), true
			}
		}
	}
	return out
}

// sinceHint returns the hint about a field or kind of a newer version.
func sinceHint(since, server kubeversion.Minor) string {
	return "it exists since Kubernetes " + since.String() + "; the API server has " + server.String()
}

// policyFindings checks one policy of any family. It stops after errors other than unknown variables, because then the meaning of the rest is unknown. pos
// returns positions for field paths; it may be nil.
func policyFindings(o compile.Object, opts Options) []Finding {
	opts.Permitted.Documents = true
	program, diags := compile.Written(o, opts.Permitted)
	var out []Finding
	for _, d := range diags {
		out = append(out, Found(d))
	}
	unclear := func(d diag.Diagnostic) bool { return d.Severity == diag.Error && d.Code != diag.UnknownVariable }
	if program == nil || slices.ContainsFunc(diags, unclear) {
		return out
	}
	known := opts.Kinds
	if strings.HasPrefix(program.APIVersion, celpolicy.Group+"/") {
		for _, d := range celPolicyFields(o.Value, program.Namespace != "", known) {
			if o.Pos != nil {
				d.Pos = o.Pos(d.Path)
			}
			out = append(out, Finding{celFields, d})
		}
	}
	for _, c := range checks {
		if c.program == nil {
			continue
		}
		for _, d := range c.program(program) {
			if o.Pos != nil {
				d.Pos = o.Pos(d.Path)
			}
			out = append(out, Finding{c, d})
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
		if in.check = c; c.policy != nil {
			c.policy(in)
		}
	}
	for _, f := range in.findings {
		if o.Pos != nil {
			f.Pos = o.Pos(f.Path)
		}
		out = append(out, f)
	}
	return out
}

// tree returns a rule as a JSON value.
func tree(r kyvernov1.Rule) map[string]any {
	b, err := json.Marshal(r)
	if err != nil {
		return nil
	}
	v, _ := value.DecodeJSON(b)
	m, _ := v.(map[string]any)
	return m
}
