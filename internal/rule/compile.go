package rule

import (
	"context"
	"errors"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/loader"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/value"
)

// Input is the information that compiling a rule requires besides the rule itself.
type Input struct {
	Namespace string // namespace of a namespaced policy; empty for cluster-scoped policies
	Path      string // field path of the authored rule, such as spec.rules[2]
	Index     int    // position in Program.Rules
	Origin    policy.Origin
	Action    policy.ActionPlan
	// Allowance is charged for what the expressions cost to compile; nil for no bound of all together.
	Allowance *compilecost.Allowance
}

// Compile returns the executable rule, and all mistakes as diagnostics. A rule with errors can still be used: it matches as far as its
// match block can be read, and evaluates to status error.
func Compile(r *kyvernov1.Rule, in Input) (*policy.Rule, diag.List) {
	c := &compiler{in: in, name: r.Name, quotable: r.Validation}
	out := &policy.Rule{
		Name: r.Name, Index: in.Index, Path: in.Path, Origin: in.Origin,
		Effect: policy.Effect{Action: in.Action, ReportProperties: r.ReportProperties},
	}
	matcher, diags := match.Compile(r.MatchResources, r.ExcludeResources, in.Namespace, in.Path)
	c.diags.Add(diags...)
	out.Match = matcher.Match
	out.Targets = matcher.Targets()
	out.Excludes = matcher.Excludes()
	out.Header = matcher.Header()
	out.MatchSteps = matcher.Steps()

	kind := c.kind(r)
	if kind == nil {
		out.Kind, out.Stage = "", policy.StageValidate
		out.Eval = c.broken()
		if r.Validation != nil && r.Validation.Assert != nil {
			// Assertion trees were removed from the language. A rule that has nothing else has no result.
			out.Match = func(context.Context, *policy.Request) (bool, error) { return false, nil }
		}
		return out, c.diags
	}
	out.Kind, out.Stage = kind.Name, kind.Stage
	out.SkipOnDelete = kind.skipOnDelete
	existing(r, out)
	out.AllowExisting = kind.allowExisting && allowsExisting(r)

	pre := prelude{context: &loader.Chain{}}
	panicked := c.safely(func() {
		pre.context = c.context(r.Context, in.Path+".context")
		pre.properties = c.properties(r.ReportProperties, in.Path+".reportProperties")
	})
	c.shared = pre.context
	before := len(c.diags) // earlier mistakes only break the parts that use them
	if panicked {
		before--
	}
	var run handler
	c.safely(func() {
		conditions := c.apart(func() { pre.preconditions = c.conditions(r.Preconditions, in.Path+".preconditions") })
		body := c.apart(func() { run = kind.compile(c, r) })
		if out.Stage.Has(policy.StageGenerate | policy.StageMutateExisting) {
			out.OldContent = oldContent(pre.context, out, conditions, body)
			pre.once = out.OldContent.Conditions
		}
	})
	if c.diags[before:].HasErrors() || run == nil {
		out.Eval = c.broken()
	} else {
		pre.relaxed, pre.bind, pre.concerns = c.relaxed, c.bind, c.concerns
		out.Eval = pre.around(run)
	}
	out.Latest = c.latest
	if kind.lifecycle != nil {
		kind.lifecycle(r, out)
	}
	c.diags.Add(c.harmless...)
	out.Outputs = c.outputs
	if !in.Origin.IsAutogen() {
		out.Grants = grants(r, in.Path)
	}
	out.Needs = c.reads.Needs
	out.Needs.Merge(matcher.Needs())
	if kind.lean && !out.Needs.Images && len(r.ImageExtractors) == 0 {
		out.Object, out.Content = c.reads.Object(), c.reads.ObjectContent()
	}
	for _, o := range in.Action.Overrides {
		out.Needs.NamespaceLabels = out.Needs.NamespaceLabels || o.Selector != nil
	}
	return out, c.diags
}

// safely calls f and turns a panic into a mistake of the rule. The rule then errs, where without it the policy would be missing.
func (c *compiler) safely(f func()) (panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			c.diags.Errorf(c.in.Path, "%v", diag.Panicked(v))
			panicked = true
		}
	}()
	f()
	return false
}

// apart compiles a part of the rule, and returns what it reads.
func (c *compiler) apart(compile func()) scope.Reads {
	around := c.reads
	c.reads = scope.Reads{}
	compile()
	own := c.reads
	c.reads = around
	c.reads.AddReads(own)
	return own
}

// oldContent returns which parts of a rule read the content of the old object, or of a deleted one.
func oldContent(context *loader.Chain, out *policy.Rule, conditions, body scope.Reads) policy.OldContent {
	reads := func(r *scope.Reads, deletes bool) bool {
		old := func(r *scope.Reads) bool { return r.Content("oldObject") || deletes && r.Content("object") }
		return old(r) || slices.ContainsFunc(context.Reading(old), func(name string) bool { return slices.Contains(r.Names(), name) })
	}
	deletes := !out.SkipOnDelete && slices.ContainsFunc(out.Targets, policy.Target.Deletes)
	return policy.OldContentOf(out, reads(&conditions, deletes), func(deletes bool) bool { return reads(&body, deletes && !out.SkipOnDelete) })
}

func allowsExisting(r *kyvernov1.Rule) bool {
	v := r.Validation
	return v != nil && (v.AllowExistingViolations == nil || *v.AllowExistingViolations)
}

// compiler holds the state that the parts of one rule share: mistakes and free variables.
type compiler struct {
	in    Input
	name  string
	diags diag.List
	// quotable is the validate block of the rule, whose pattern a message may quote; nil if there is none.
	quotable *kyvernov1.Validation
	harmless diag.List // mistakes that do not break the rule
	latest   string    // policy.Rule.Latest
	reads    scope.Reads
	looping  bool    // the compiler is inside the body of a foreach
	relaxed  relaxed // set by a kind whose handler can skip controls
	outputs  []policy.Output
	// shared is the context of the complete rule.
	shared *loader.Chain
	// bind is set by a kind that defines variables for the whole rule.
	bind func(*scope.Scope) *scope.Scope
	// concerns is set by a kind that is about objects with certain parts only (prelude.concerns).
	concerns func(*scope.Scope) bool
}

// kind returns the handler of the rule. It reports rules with none or several.
func (c *compiler) kind(r *kyvernov1.Rule) *Kind {
	groups := 0
	for _, has := range []bool{r.Validation != nil, r.Mutation != nil, r.Generation != nil, len(r.VerifyImages) > 0} {
		if has {
			groups++
		}
	}
	switch {
	case groups == 0:
		c.diags.Errorf(c.in.Path, "No operation defined in the rule '%s'.(supported operations: mutate,validate,generate,verifyImages)", r.Name)
		c.diags.Hint("add one of them to the rule")
		return nil
	case groups > 1:
		c.diags.Errorf(c.in.Path, "Multiple operations defined in the rule '%s', only one operation (mutate,validate,generate,verifyImages) is allowed per rule", r.Name)
		c.diags.Hint("split it into one rule for each of them, with a name of its own")
	}
	found := kindsOf(r)
	switch {
	case len(found) == 0 && r.Validation != nil:
		c.diags.Errorf(c.in.Path+".validate", "one of pattern, anyPattern, deny, foreach, cel must be specified")
		c.diags.Hint("podSecurity and manifests are possible as well; a message alone checks nothing")
		return nil
	case len(found) == 0:
		c.diags.Errorf(c.in.Path+".mutate", "one of `foreach`, `patchStrategicMerge`, or `patchesJson6902` must be specified")
		c.diags.Hint("patchStrategicMerge is the usual one: it has the fields to set, as in the object")
		return nil
	case len(found) > 1 && groups == 1:
		c.several(found)
	}
	return found[0]
}

func (c *compiler) several(found []*Kind) {
	switch found[0].group() {
	case "validate":
		c.diags.Errorf(c.in.Path+".validate", "only one of pattern, anyPattern, deny, foreach, cel can be specified")
		c.diags.Hint("split the rule into one rule for each of %s", fields(found))
	case "mutate":
		c.diags.Errorf(c.in.Path+".mutate", "only one of `foreach`, `patchStrategicMerge`, or `patchesJson6902` is allowed")
		c.diags.Hint("split the rule into one rule for each of %s", fields(found))
	}
}

func fields(ks []*Kind) string {
	s := ""
	for i, k := range ks {
		if i > 0 {
			s += ", "
		}
		s += k.Field()
	}
	return s
}

// broken returns the evaluator of a rule with mistakes. It returns an error with the first mistake.
func (c *compiler) broken() func(*policy.Call) policy.Yield {
	message := "the rule cannot be evaluated"
	if errs := c.diags.Errors(); len(errs) > 0 {
		message = errs[0].Path + ": " + errs[0].Summary
	}
	y := policy.Yield{Status: policy.StatusError, Message: message}
	return func(*policy.Call) policy.Yield { return y }
}

func (c *compiler) context(entries []kyvernov1.ContextEntry, path string) *loader.Chain {
	chain, diags := loader.Compile(entries, c.in.Namespace, path, c.in.Allowance)
	// An entry that cannot be loaded is an error of the policy, but breaks only the parts that use it.
	c.diags.Add(diags...)
	c.reads.AddReads(chain.Reads())
	return chain
}

// conditions compiles an optional block of conditions. It returns nil if there is none.
func (c *compiler) conditions(raw *apiextensionsv1.JSON, path string) *condition.Set {
	v, ok := c.decode(raw, path)
	if !ok || v == nil {
		return nil
	}
	return c.conditionTree(v, path)
}

func (c *compiler) conditionTree(v any, path string) *condition.Set {
	set, diags := condition.Compile(v, path, c.in.Allowance)
	c.diags.Add(diags...)
	c.reads.AddNames(set.Roots()...)
	for _, t := range set.Templates() {
		c.reads.Add(t)
	}
	return set
}

// decode decodes a schemaless field; ok is false if it is absent or malformed.
func (c *compiler) decode(raw *apiextensionsv1.JSON, path string) (v any, ok bool) {
	if raw == nil {
		return nil, false
	}
	v, err := value.DecodeJSON(raw.Raw)
	if err != nil {
		c.diags.Errorf(path, "invalid JSON: %v", err)
		c.diags.Hint("write a value of YAML or JSON, with texts in quotes")
		return nil, false
	}
	return v, true
}

var errNoObject = errors.New("the request carries no object")

// subject returns the object that patterns are checked against.
func subject(s *scope.Scope) (map[string]any, error) {
	obj, err := s.Request.Subject()
	if err == nil && obj == nil {
		err = errNoObject
	}
	return obj, err
}
