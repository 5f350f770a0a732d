package rule

import (
	"errors"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/celenv"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
)

var validateCEL = &Kind{
	Name:  "validate.cel",
	Stage: policy.StageValidate,
	Doc: "CEL expressions have to hold, as in a ValidatingAdmissionPolicy: with variables, parameters and messages that are " +
		"expressions too. Unlike patterns, they also judge DELETE requests, with object being null.",
	Owns: func(r *kyvernov1.Rule) bool { return r.Validation != nil && r.Validation.CEL != nil },
	// No allowExisting: an update that violates is refused, whatever the old object was; what should hold for changes only
	// compares with oldObject.
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		if h := c.cel(r); h != nil {
			return h.run
		}
		return nil
	},
}

const textCELPreconditions = "cel preconditions not met"

// cel is a compiled rule.
type cel struct {
	preconditions []*celenv.Expression
	validations   []validation
	audits        []audit
	variables     *celenv.Variables
	params        *params
	pass          policy.Yield
}

// validation is one expression with its messages.
type validation struct {
	expression  *celenv.Expression
	messageOf   *celenv.Expression // nil when the author wrote no messageExpression
	message     string             // of the expression; "" when it has none
	ruleMessage *message           // of the rule, when the expression has none; nil when there is none either
	fallback    string             // what the API server says
}

// audit is an audit annotation: a property of the result.
type audit struct {
	key   string
	value *celenv.Expression
}

func (c *compiler) cel(r *kyvernov1.Rule) *cel {
	in := r.Validation.CEL
	path := c.in.Path + ".validate.cel"
	out := &cel{
		params: c.params(in.ParamKind, in.ParamRef, path),
		pass:   policy.Yield{Status: policy.StatusPass, Message: "Validation rule '" + c.name + "' passed."},
	}
	expressions := celenv.NewCompiler(celenv.Declarations{Params: in.ParamKind != nil}).Within(c.in.CEL)
	for i, v := range in.Variables {
		at := path + ".variables[" + strconv.Itoa(i) + "]"
		if v.Name == "" {
			c.diags.Errorf(at+".name", "Required value: a variable needs a name")
		}
		c.celMistake(expressions.Variable(v.Name, v.Expression), at+".expression")
	}
	for i, p := range r.CELPreconditions {
		at := c.in.Path + ".celPreconditions[" + strconv.Itoa(i) + "].expression"
		out.preconditions = append(out.preconditions, c.celExpression(expressions, p.Expression, at, celenv.Bool))
	}
	msg := c.message(r.Validation.Message, c.in.Path+".validate.message")
	for i := range in.Expressions {
		out.validations = append(out.validations, c.validation(expressions, &in.Expressions[i], path+".expressions["+strconv.Itoa(i)+"]", &msg))
	}
	for i, a := range in.AuditAnnotations {
		at := path + ".auditAnnotations[" + strconv.Itoa(i) + "]"
		if a.Key == "" {
			c.diags.Errorf(at+".key", "cel.auditAnnotation.key is required")
		}
		if a.ValueExpression == "" {
			c.diags.Errorf(at+".valueExpression", "cel.auditAnnotation.valueExpression is required")
			continue
		}
		out.audits = append(out.audits, audit{a.Key, c.celExpression(expressions, a.ValueExpression, at+".valueExpression", celenv.String, celenv.Null, celenv.Dyn)})
	}
	out.variables = expressions.Variables()
	c.celReads(r)
	return out
}

func (c *compiler) validation(expressions *celenv.Compiler, v *admissionregistrationv1.Validation, path string, rule *message) validation {
	out := validation{message: strings.TrimSpace(v.Message), fallback: "failed expression: " + strings.TrimSpace(v.Expression)}
	if v.Expression == "" {
		c.diags.Errorf(path+".expression", "cel.expressions.expression is required")
		return out
	}
	out.expression = c.celExpression(expressions, v.Expression, path+".expression", celenv.Bool)
	if v.MessageExpression != "" {
		out.messageOf = c.messageExpression(expressions, v.MessageExpression, path+".messageExpression")
	}
	if v.Message == "" && !rule.empty() {
		out.ruleMessage = rule
	}
	return out
}

// messageExpression compiles an expression for a message. A mistake in it changes the text of a failure only, so it is a
// warning. Its type may be known at run time only; what is no text then is no message.
func (c *compiler) messageExpression(expressions *celenv.Compiler, text, path string) *celenv.Expression {
	before := len(c.diags)
	x := c.celExpression(expressions, text, path, celenv.String, celenv.Dyn)
	for i := before; i < len(c.diags); i++ {
		c.diags[i].Severity = diag.Warning
		c.diags[i].Hint = "the expression is not used"
	}
	return x
}

// celExpression compiles one expression; nil when it has mistakes.
func (c *compiler) celExpression(expressions *celenv.Compiler, text, path string, results ...celenv.Result) *celenv.Expression {
	x, err := expressions.Compile(text, results...)
	c.celMistake(err, path)
	return x
}

// celMistake reports why an expression cannot be compiled, each mistake with its place in the expression.
func (c *compiler) celMistake(err error, path string) {
	if err == nil {
		return
	}
	if over := (*celenv.AllowanceError)(nil); errors.As(err, &over) {
		if !c.overCEL { // once for a rule
			c.overCEL = true
			c.diags.Errorf(path, "%v", err)
			c.diags.Hint("split the policy, or write common parts as variables")
		}
		return
	}
	var mistakes *celenv.CompileError
	if !errors.As(err, &mistakes) {
		c.diags.Errorf(path, "%v", err)
		return
	}
	for _, x := range mistakes.Issues {
		c.diags.Errorf(path, "%s (line %d, column %d of the expression)", x.Message, x.Line, x.Column+1)
	}
}

// celReads notes what the expressions may look at besides the object. Whether they do is told by their text: a name too
// many costs little.
func (c *compiler) celReads(r *kyvernov1.Rule) {
	var all strings.Builder
	in := r.Validation.CEL
	for _, p := range r.CELPreconditions {
		all.WriteString(p.Expression + "\n")
	}
	for _, v := range in.Variables {
		all.WriteString(v.Expression + "\n")
	}
	for _, e := range in.Expressions {
		all.WriteString(e.Expression + "\n" + e.MessageExpression + "\n")
	}
	for _, a := range in.AuditAnnotations {
		all.WriteString(a.ValueExpression + "\n")
	}
	text := all.String()
	for word, need := range map[string]policy.Needs{
		"userInfo": {User: true}, "authorizer": {User: true, Lookups: true}, "oldObject": {OldObject: true},
		"operation": {Operation: true}, "namespaceObject": {Lookups: true},
	} {
		if strings.Contains(text, word) {
			c.reads.Needs.Merge(need)
		}
	}
}

// run finds the parameters, and judges preconditions and expressions with each of them. The first parameters with which
// the rule does not pass decide; a rule that is allowed to find none passes.
func (r *cel) run(s *policy.Scope) policy.Yield {
	in, err := celInput(s)
	if err != nil {
		return failed("", err)
	}
	if r.params == nil {
		return r.judge(s, in)
	}
	found, err := r.params.find(s)
	if err != nil {
		return failed("error in parameterized resource: ", err)
	}
	passed, skipped := r.pass, len(found) > 0
	for _, p := range found {
		with := *in
		with.Params = p
		switch y := r.judge(s, &with); y.Status {
		case policy.StatusPass:
			passed, skipped = y, false
		case policy.StatusSkip:
		default:
			return y
		}
	}
	if skipped {
		return policy.Yield{Status: policy.StatusSkip, Message: textCELPreconditions}
	}
	return passed
}

// judge evaluates preconditions and expressions with one set of parameters.
func (r *cel) judge(s *policy.Scope, in *celenv.Input) policy.Yield {
	ctx := s.Env.Meter.Context()
	if len(r.preconditions) > 0 {
		e := r.variables.Evaluate(ctx, in, affordable(s, celenv.BudgetCondition))
		ok, err := CELConditions(e, r.preconditions)
		if over := spend(s, e); over != nil {
			err = over
		}
		if err != nil {
			return unevaluated(err)
		}
		if !ok {
			return policy.Yield{Status: policy.StatusSkip, Message: textCELPreconditions}
		}
	}
	e := r.variables.Evaluate(ctx, in, affordable(s, celenv.Budget))
	y := r.validate(s, e)
	if err := spend(s, e); err != nil {
		return unevaluated(err)
	}
	return y
}

// affordable is how much expressions may cost: limit, or what is left to the policy when that is less.
func affordable(s *policy.Scope, limit int64) int64 {
	return min(limit, s.Env.Meter.Left(limit*budget.StepsPerCost)/budget.StepsPerCost+1)
}

// spend counts what they cost for the policy's budget.
func spend(s *policy.Scope, e *celenv.Evaluation) error {
	return s.Env.Meter.Beside(e.Spent() * budget.StepsPerCost)
}

// unevaluated is the result when an expression has no value: a failure, as for a ValidatingAdmissionPolicy whose
// failurePolicy is Fail. What could not be found out, or cost too much, is an error.
func unevaluated(err error) policy.Yield {
	var evaluation *celenv.EvaluationError
	if errors.As(err, &evaluation) {
		return policy.Yield{Status: policy.StatusFail, Message: err.Error()}
	}
	return failed("", err)
}

// CELConditions judges match conditions as the API server does: one that is false decides, also after an error.
func CELConditions(e *celenv.Evaluation, conditions []*celenv.Expression) (bool, error) {
	var failures []error
	for _, x := range conditions {
		ok, err := e.Bool(x)
		switch {
		case budget.Over(err):
			return false, err
		case err != nil:
			failures = append(failures, err)
		case !ok:
			return false, nil
		}
	}
	if len(failures) > 0 {
		return false, severalErrors(failures)
	}
	return true, nil
}

// severalErrors are worded as the API server words them: in brackets, each once.
type severalErrors []error

func (e severalErrors) Error() string   { return utilerrors.NewAggregate(e).Error() }
func (e severalErrors) Unwrap() []error { return e }

// validate evaluates the expressions in order; the first that does not hold decides.
func (r *cel) validate(s *policy.Scope, e *celenv.Evaluation) policy.Yield {
	y := r.pass
	for i := range r.validations {
		v := &r.validations[i]
		ok, err := e.Bool(v.expression)
		if err != nil {
			return unevaluated(err)
		}
		if !ok {
			y = policy.Yield{Status: policy.StatusFail, Message: v.say(s, e)}
			break
		}
	}
	for _, a := range r.audits {
		text, ok, err := e.Text(a.value)
		if err != nil {
			return failed("failed to evaluate auditAnnotation '"+a.key+"': ", err)
		}
		if text = strings.TrimSpace(text); ok && text != "" {
			if y.Properties == nil {
				y.Properties = map[string]string{}
			}
			y.Properties[a.key] = text
		}
	}
	return y
}

// say is the message of an expression that does not hold: what messageExpression gives, if that is one line of decent
// length; else the message of the expression, of the rule, of the API server.
func (v *validation) say(s *policy.Scope, e *celenv.Evaluation) string {
	if v.messageOf != nil {
		text, ok, err := e.Text(v.messageOf)
		text = strings.TrimSpace(text)
		if err == nil && ok && text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
			return text
		}
	}
	if v.message != "" {
		return v.message
	}
	if v.ruleMessage != nil {
		if text, err := v.ruleMessage.resolve(s); err == nil && strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
	}
	return v.fallback
}
