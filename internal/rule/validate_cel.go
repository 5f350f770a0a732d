package rule

import (
	"errors"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/celenv"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

var validateCEL = &Kind{
	Name:  "validate.cel",
	Stage: policy.StageValidate,
	Doc: "CEL expressions must hold, as in a ValidatingAdmissionPolicy: with variables, parameters and message " +
		"expressions. Unlike patterns, they are also evaluated for DELETE requests, where object is null.",
	lean: true,
	Owns: func(r *kyvernov1.Rule) bool { return r.Validation != nil && r.Validation.CEL != nil },
	// allowExisting is not set: an update with a violation is denied, whatever the old object was. A rule that only applies to
	// changes can compare with oldObject.
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
	celrule.Rule
	message   *message // the message of the rule, for expressions without one
	params    *celrule.Params
	paramKind admissionregistrationv1.ParamKind
	pass      policy.Yield
}

func (c *compiler) cel(r *kyvernov1.Rule) *cel {
	in := r.Validation.CEL
	path := c.in.Path + ".validate.cel"
	out := &cel{pass: policy.Yield{Status: policy.StatusPass, Message: "Validation rule '" + c.name + "' passed."}}
	out.params, out.paramKind = c.params(in.ParamKind, in.ParamRef, path)
	msg := c.message(r.Validation.Message, c.in.Path+".validate.message")
	out.message = &msg

	x := celrule.New(celenv.Declarations{Params: in.ParamKind != nil}, c.in.Allowance)
	x.Variables(in.Variables, path+".variables")
	out.Conditions = x.Conditions(r.CELPreconditions, c.in.Path+".celPreconditions")
	for i := range in.Expressions {
		at := path + ".expressions[" + strconv.Itoa(i) + "]"
		if in.Expressions[i].Expression == "" {
			x.Diags.Errorf(at+".expression", "cel.expressions.expression is required")
			x.Diags.Hint("add an expression, such as object.spec.replicas <= 3")
			continue
		}
		// The type of a message may only be known at run time. A value that is not a string is not used as a message.
		out.Validations = append(out.Validations, x.Validation(&in.Expressions[i], at, celenv.String, celenv.Dyn))
	}
	for i := range in.AuditAnnotations {
		a, at := &in.AuditAnnotations[i], path+".auditAnnotations["+strconv.Itoa(i)+"]"
		if a.Key == "" {
			x.Diags.Errorf(at+".key", "cel.auditAnnotation.key is required")
			x.Diags.Hint("add a key, the name of the annotation in the audit log")
		}
		if a.ValueExpression == "" {
			x.Diags.Errorf(at+".valueExpression", "cel.auditAnnotation.valueExpression is required")
			x.Diags.Hint("add an expression that gives a text, such as \"'replicas: ' + string(object.spec.replicas)\"")
			continue
		}
		out.Annotations = append(out.Annotations, x.Annotation(a, at))
	}
	out.Named = x.Named()
	c.reads.Needs.Merge(x.Needs())
	if object := x.Object(); object != nil {
		c.reads.AddObject(object)
	}
	c.diags.Add(x.Diags...)
	return out
}

// params compiles paramKind and paramRef. It returns nil if the rule has none, or if they cannot be read.
func (c *compiler) params(kind *admissionregistrationv1.ParamKind, ref *admissionregistrationv1.ParamRef, path string) (*celrule.Params, admissionregistrationv1.ParamKind) {
	if kind == nil && ref == nil {
		return nil, admissionregistrationv1.ParamKind{}
	}
	if kind == nil {
		c.diags.Errorf(path+".paramKind", "cel.paramKind is required")
		c.diags.Hint("say of which kind the parameters are, such as paramKind: {apiVersion: v1, kind: ConfigMap}")
		kind = &admissionregistrationv1.ParamKind{APIVersion: "-", Kind: "-"} // the reference may contain further mistakes
	}
	if kind.APIVersion == "" {
		c.diags.Errorf(path+".paramKind.apiVersion", "cel.paramKind.apiVersion is required")
		c.diags.Hint("add the version of the kind, such as v1 or rules.example.com/v1")
	}
	if kind.Kind == "" {
		c.diags.Errorf(path+".paramKind.kind", "cel.paramKind.kind is required")
		c.diags.Hint("add the kind, such as ConfigMap")
	}
	if ref == nil {
		c.diags.Errorf(path+".paramRef", "cel.paramRef is required")
		c.diags.Hint("say which object has the parameters: paramRef.name, and namespace if it has one")
		return nil, *kind
	}
	out, err := celrule.CompileParams(ref)
	switch {
	case ref.Name == "" && ref.Selector == nil:
		c.diags.Errorf(path+".paramRef", "one of cel.paramRef.name or cel.paramRef.selector must be set")
		c.diags.Hint("name the object, or select several with selector.matchLabels")
	case ref.Name != "" && ref.Selector != nil:
		c.diags.Errorf(path+".paramRef", "paramRef.name and paramRef.selector are mutually exclusive")
		c.diags.Hint("keep one of them")
	case err != nil:
		c.diags.Errorf(path+".paramRef.selector", "%v", err)
	}
	if ref.ParameterNotFoundAction == nil {
		c.diags.Errorf(path+".paramRef.parameterNotFoundAction", "cel.paramRef.parameterNotFoundAction is required")
		c.diags.Hint("write Deny, or Allow if the rule is to pass without parameters")
	}
	c.reads.Needs.Lookups = true
	return out, *kind
}

// run finds the parameters, and evaluates preconditions and expressions with each of them. The first parameters with which the rule does
// not pass determine the result. A rule that allows missing parameters passes if there are none.
func (r *cel) run(s *scope.Scope) policy.Yield {
	in, err := celrule.Input(s.Call)
	if err != nil {
		return failed("", err)
	}
	if r.params == nil {
		return r.evaluate(s, in)
	}
	found, err := r.params.Find(s.Call, r.paramKind)
	if err != nil {
		return failed("error in parameterized resource: ", err)
	}
	passed, skipped := r.pass, len(found) > 0
	for _, p := range found {
		with := *in
		with.Params = p
		switch y := r.evaluate(s, &with); y.Status {
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

// evaluate evaluates preconditions and expressions with one set of parameters.
func (r *cel) evaluate(s *scope.Scope, in *celenv.Input) policy.Yield {
	meter := s.Env.Meter
	if ok, err := r.Applies(meter.Context(), meter, in); err != nil {
		return unevaluated(err)
	} else if !ok {
		return policy.Yield{Status: policy.StatusSkip, Message: textCELPreconditions}
	}
	out, err := r.Check(meter.Context(), meter, in)
	if err != nil {
		return unevaluated(err)
	}
	y := r.pass
	if out.Failed != nil {
		y = policy.Yield{Status: policy.StatusFail, Message: r.failure(s, &out)}
	}
	y.Properties = out.Annotations
	return y
}

// unevaluated returns the result if an expression could not be evaluated. It is a failure, as for a ValidatingAdmissionPolicy with
// failurePolicy Fail. A failed lookup, an exceeded cost limit, or an audit annotation without a value is an error.
func unevaluated(err error) policy.Yield {
	if annotation := (*celrule.AnnotationError)(nil); errors.As(err, &annotation) {
		return failed("", err)
	}
	if evaluation := (*celenv.EvaluationError)(nil); errors.As(err, &evaluation) {
		return policy.Yield{Status: policy.StatusFail, Message: err.Error()}
	}
	return failed("", err)
}

// failure returns the message for a false expression: the message of the expression, else that of the rule, else that of the API server.
func (r *cel) failure(s *scope.Scope, out *celrule.Outcome) string {
	if out.Message != "" {
		return out.Message
	}
	if !r.message.empty() {
		if text, err := r.message.resolve(s); err == nil && strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
	}
	return out.Failed.Fallback()
}
