package rule

import (
	"errors"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/loader"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

var validateForeach = &Kind{
	Name:  "validate.foreach",
	Stage: policy.StageValidate,
	Doc: "Checks every element of a list with a pattern, anyPattern, deny conditions or a nested foreach. " +
		"An empty list gives no result.",
	Owns: func(r *kyvernov1.Rule) bool { return r.Validation != nil && len(r.Validation.ForEachValidation) > 0 },
	lean: true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		v := r.Validation
		msg := c.message(v.Message, c.in.Path+".validate.message")
		loops := c.loops(v.ForEachValidation, c.in.Path+".validate.foreach", 0, msg)
		return func(s *scope.Scope) policy.Yield {
			y := evalLoops(loops, s)
			if y.Status == policy.StatusPass {
				return yieldForeach
			}
			return y
		}
	},
}

// These texts are Kyverno's, verbatim.
const (
	textForeachFailure = "validation failure: "
	textForeachError   = "failed to process foreach: "
	textListError      = "failed to evaluate list: "
)

var yieldForeach = policy.Yield{Status: policy.StatusPass, Message: "rule passed"}

// loop is one compiled foreach entry.
type loop struct {
	list          *jmespath.Expr
	elementScope  *bool
	bind          binder
	context       *loader.Chain
	preconditions *condition.Set
	// One of these two is set: nested loops, or a check of the element (or of the whole resource).
	nested []*loop
	check  check
	// needsResource: the check evaluates a document. Deny conditions do not need one.
	needsResource bool
}

// loops compiles the entries of a foreach. depth is the number of enclosing loops.
func (c *compiler) loops(entries []kyvernov1.ForEachValidation, path string, depth int, msg message) []*loop {
	if depth > maxLoopDepth {
		c.diags.Errorf(path, "foreach is nested more than %d levels deep", maxLoopDepth)
		c.diags.Hint("take the elements of the inner lists with one query, such as spec.containers[].ports[]")
		return nil
	}
	out := make([]*loop, len(entries))
	for i := range entries {
		out[i] = c.loop(&entries[i], path+"["+strconv.Itoa(i)+"]", depth, msg)
	}
	return out
}

// maxLoopDepth is much more than policies need. The budget, not this limit, bounds the evaluation.
const maxLoopDepth = 32

func (c *compiler) loop(f *kyvernov1.ForEachValidation, path string, depth int, msg message) *loop {
	l := &loop{elementScope: f.ElementScope}
	l.list = c.list(f.List, path+".list")

	// The names that the entry reads determine which of its variables are defined for each element.
	outer, looping := c.reads, c.looping
	c.reads, c.looping = scope.Reads{}, true
	l.context = c.context(f.Context, path+".context")
	if f.AnyAllConditions != nil {
		l.preconditions = c.conditionTree(anyAllTree(f.AnyAllConditions), path+".preconditions")
		c.diags.Add(l.preconditions.Deprecated()...)
	}
	c.body(l, f, path, depth, msg)
	if msg.dynamic != nil {
		c.reads.Add(msg.dynamic)
	}
	l.bind = newBinder(&c.reads, c.shared, l.list, depth)
	inner := c.reads
	c.reads, c.looping = outer, looping
	c.reads.AddLoop(l.list, inner, elementNames(depth)...)
	return l
}

func (c *compiler) list(text, path string) *jmespath.Expr {
	if text == "" {
		c.diags.Errorf(path, "foreach.list is required")
		c.diags.Hint("add list, such as request.object.spec.containers")
		return nil
	}
	query, err := jmespath.CompileWithin(c.in.Allowance, text, jmespath.Quoting{})
	if err != nil {
		c.diags.Errorf(path, "%sincorrect query %s: %v", textListError, text, err)
		c.diags.Hint("list is a bare JMESPath expression, without {{ }}")
		return nil
	}
	return query
}

// body compiles the check of an element.
func (c *compiler) body(l *loop, f *kyvernov1.ForEachValidation, path string, depth int, msg message) {
	has := 0
	if f.Deny != nil {
		has++
		evaluate := c.deny(f.Deny, path+".deny", msg)
		l.check = func(s *scope.Scope, _ any) policy.Yield { return evaluate(s) }
	}
	if f.RawPattern != nil {
		has++
		l.check, l.needsResource = c.pattern(f.RawPattern, path+".pattern", msg), true
	}
	if f.RawAnyPattern != nil {
		has++
		l.check, l.needsResource = c.anyPattern(f.RawAnyPattern, path+".anyPattern", msg), true
	}
	if len(f.ForEachValidation) > 0 {
		has++
		l.nested = c.loops(f.ForEachValidation, path+".foreach", depth+1, msg)
	}
	switch {
	case has == 0:
		c.diags.Errorf(path, "one of pattern, anyPattern, deny, or a nested foreach must be specified")
		c.diags.Hint("add what each element is checked with; it is {{ element }} in conditions")
	case has > 1:
		c.diags.Errorf(path, "only one of pattern, anyPattern, deny, or a nested foreach can be specified")
		c.diags.Hint("split it into one foreach entry for each")
	}
}

// anyAllTree returns typed conditions in the schemaless form. It preserves the difference between an absent and an empty block.
func anyAllTree(c *kyvernov1.AnyAllConditions) map[string]any {
	out := map[string]any{}
	if c.AnyConditions != nil {
		out["any"] = conditionList(c.AnyConditions)
	}
	if c.AllConditions != nil {
		out["all"] = conditionList(c.AllConditions)
	}
	return out
}

func evalLoops(loops []*loop, s *scope.Scope) policy.Yield {
	applied := false
	for _, l := range loops {
		y := l.eval(s)
		switch y.Status {
		case policy.StatusPass:
			applied = true
		case policy.StatusFail, policy.StatusError:
			return y
		}
	}
	if applied {
		return policy.Yield{Status: policy.StatusPass}
	}
	return policy.Yield{}
}

// eval evaluates the elements in order and stops at the first failure or error. If no element applies, the Yield is empty.
func (l *loop) eval(s *scope.Scope) policy.Yield {
	elements, err := l.elements(s)
	if err != nil {
		return failed(textListError+"JMESPath query failed: ", err)
	}
	applied := false
	for i, element := range elements {
		if err := spendElement(s.Env.Meter); err != nil {
			return failed(textForeachError, err)
		}
		if element == nil {
			continue
		}
		y := l.element(s, element, i)
		switch y.Status {
		case policy.StatusPass:
			applied = true
		case policy.StatusFail:
			y.Message = textForeachFailure + y.Message
			y.Failing(l.failing(s, elements, i))
			return y
		case policy.StatusError:
			return y
		}
	}
	if applied {
		return policy.Yield{Status: policy.StatusPass}
	}
	return policy.Yield{}
}

// Limits of the elements that a result names, and of those that are evaluated for it.
const (
	maxNamed  = 10
	maxOthers = 100
)

// failing returns all elements that fail, by index and name, if more than the first one do. It is empty if finding them would need lookups
// or further loops.
func (l *loop) failing(s *scope.Scope, elements []any, first int) string {
	if l.context != nil || l.nested != nil || l.bind.late.Reads().Needs.Lookups {
		return ""
	}
	named := []string{elementName(elements[first], first)}
	more := false
	for i := first + 1; i < len(elements); i++ {
		if more = i-first > maxOthers || len(named) == maxNamed; more || spendElement(s.Env.Meter) != nil {
			break
		}
		if elements[i] != nil && l.element(s, elements[i], i).Status == policy.StatusFail {
			named = append(named, elementName(elements[i], i))
		}
	}
	if len(named) == 1 {
		return ""
	}
	if more {
		named = append(named, "perhaps others")
	}
	return strings.Join(named, ", ")
}

// elementName returns the index of an element, with its name if it has one.
func elementName(element any, index int) string {
	out := strconv.Itoa(index)
	text, ok := element.(string)
	if m, isMap := element.(map[string]any); isMap {
		text, ok = m["name"].(string)
	}
	if ok && text != "" && len(text) <= maxNameBytes {
		out += " " + text
	}
	return out
}

// maxNameBytes bounds the name of an element in a message.
const maxNameBytes = 253

// The cost of an element in addition to its check: a scope with its names.
const (
	elementSteps = 48
	elementBytes = 192
)

// spendElement charges for one element of a foreach.
func spendElement(m *budget.Meter) error {
	if err := m.Step(elementSteps); err != nil {
		return err
	}
	return m.Bytes(elementBytes)
}

// elements evaluates the list. A key that it lacks means that there are no elements. Any value other than a list is a single element.
func (l *loop) elements(s *scope.Scope) ([]any, error) {
	v, err := l.list.Search(s.QueryEnv(), s)
	if err != nil {
		if _, missing := err.(*jmespath.UnknownKeyError); missing { // not if a context entry could not be loaded for that reason
			return nil, nil
		}
		return nil, err
	}
	if list, ok := v.([]any); ok {
		return list, nil
	}
	return []any{v}, nil
}

// element evaluates one element in a separate scope.
func (l *loop) element(outer *scope.Scope, element any, index int) policy.Yield {
	s := l.bind.apply(outer, element, index)
	inScope, err := l.inScope(element)
	if err != nil {
		return failed(textForeachError, err)
	}
	s = l.context.Apply(s)
	if l.preconditions != nil {
		verdict, err := l.preconditions.Eval(s.QueryEnv(), s)
		if budget.Over(err) {
			return failed(textForeachError, err)
		}
		if err != nil || !verdict.OK {
			return policy.Yield{} // an error skips the element, as documented
		}
	}
	if l.nested != nil {
		return evalLoops(l.nested, s)
	}
	resource := element
	if l.needsResource && !inScope {
		object, err := subject(s)
		if err != nil {
			return failed(textForeachError, err)
		}
		resource = object
	}
	y := l.check(s, resource)
	if y.Status == policy.StatusError {
		y.Message = textForeachFailure + y.Message // Kyverno uses the text of a failure
	}
	return y
}

// inScope reports whether patterns are checked against the element. Otherwise they are checked against the whole resource.
func (l *loop) inScope(element any) (bool, error) {
	_, isMap := element.(map[string]any)
	if l.elementScope == nil {
		return isMap, nil
	}
	if *l.elementScope && !isMap {
		return false, errors.New("cannot use elementScope=true foreach rules for elements that are not maps, expected type=map got type=" + goType(element))
	}
	return *l.elementScope, nil
}

// goType returns the type of an element with the name that Kyverno uses.
func goType(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case []any:
		return "[]interface {}"
	case int64, float64:
		return "float64" // every number of the JSON context is a float
	}
	return "map[string]interface {}"
}
