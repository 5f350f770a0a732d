package vapgen

import (
	"fmt"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/reads"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/strict"
)

// The lists of exceptions that expressions can read.
const (
	allowedImages = "allowedImages"
	allowedValues = "allowedValues"
)

// folded is the translation of a policy's exceptions: conditions that are false for exempt requests, and expressions for the
// lists of exceptions that relax the policy in part.
type folded struct {
	conditions     []admissionregistrationv1.MatchCondition
	images, values list
	// undefined is an exception whose conditions may have no value for some objects; nil for none.
	undefined *policy.Exception
}

// list is an expression for a list of texts.
type list struct {
	always []string // for every request
	when   []string // expressions for additional texts
}

// inexpressible returns why no policy of the API server can have the exceptions; empty if it can.
func inexpressible(exceptions []*policy.Exception) string {
	for _, e := range exceptions {
		switch {
		case e.Workload:
			return fmt.Sprintf(reasonWorkload, e.Key())
		case e.Audit:
			return fmt.Sprintf(reasonAudit, e.Key())
		}
	}
	return ""
}

// fold translates exceptions of policies.kyverno.io. taken are the names of the policy's own conditions. present are the paths that are present
// in every request. An exception that cannot be evaluated exempts nothing (package exempt), but the API server has no expression for that: an
// error of a condition denies the request.
func fold(exceptions []*policy.Exception, taken []admissionregistrationv1.MatchCondition, present []string) (out folded) {
	names := map[string]bool{}
	for _, c := range taken {
		names[c.Name] = true
	}
	for _, e := range exceptions {
		if e.ID().Group != celpolicy.Group {
			continue
		}
		var x policiesv1beta1.PolicyException
		strict.Decode(e.Source(), &x) // the exception was compiled from this object
		holds := conjunction(x.Spec.MatchConditions)
		if holds != "" && !reads.Defined(holds, present...) {
			out.undefined = e
			return out
		}
		switch {
		case e.Partial:
			out.images.add(x.Spec.Images, holds)
			out.values.add(x.Spec.AllowedValues, holds)
		case holds == "":
			out.conditions = append(out.conditions, admissionregistrationv1.MatchCondition{Name: unused(names, "exception-"+shortened(x.Name), "-"), Expression: "false"})
		default:
			out.conditions = append(out.conditions, admissionregistrationv1.MatchCondition{
				Name: unused(names, x.Spec.MatchConditions[0].Name, "-"), Expression: "!" + typecheck.Group(holds),
			})
		}
	}
	return out
}

// conjunction returns an expression that is true if all conditions are; empty without conditions.
func conjunction(all []admissionregistrationv1.MatchCondition) string {
	if len(all) == 1 {
		return all[0].Expression
	}
	parts := make([]string, len(all))
	for i, c := range all {
		parts[i] = typecheck.Group(c.Expression)
	}
	return strings.Join(parts, " && ")
}

// shortened returns a name that leaves room for a prefix and a number in the name of a condition.
func shortened(name string) string {
	if len(name) > 48 {
		name = strings.TrimRight(name[:48], "-.")
	}
	return name
}

// unused returns the name, or a similar one that is not taken, and marks it as taken.
func unused(taken map[string]bool, name, separator string) string {
	out := name
	for i := 2; taken[out]; i++ {
		out = name + separator + strconv.Itoa(i)
	}
	taken[out] = true
	return out
}

func (l *list) add(texts []string, holds string) {
	switch {
	case len(texts) == 0:
	case holds == "":
		l.always = append(l.always, texts...)
	default:
		l.when = append(l.when, "("+typecheck.Group(holds)+" ? "+literal(texts)+" : [])")
	}
}

func (l *list) empty() bool { return len(l.always)+len(l.when) == 0 }

// expression returns the expression for the list.
func (l *list) expression() string {
	if len(l.when) == 0 {
		return literal(l.always)
	}
	parts := l.when
	if len(l.always) > 0 {
		parts = append([]string{literal(l.always)}, parts...)
	}
	return strings.Join(parts, " + ")
}

// literal writes a list of texts.
func literal(texts []string) string {
	parts := make([]string, len(texts))
	for i, t := range texts {
		parts[i] = "'" + quoting.Replace(t) + "'"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

var quoting = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`)

// rewriter replaces exceptions.⟨list⟩ in expressions.
type rewriter struct {
	with map[string]string // by the name of the list
	used map[string]bool   // the lists that were replaced
}

// expression rewrites one expression. It does not change quoted texts and comments.
func (r *rewriter) expression(text string) string {
	var out strings.Builder
	before := "" // the last token that is not blank
	for at := 0; at < len(text); {
		end := typecheck.SkipToken(text, at)
		token := text[at:end]
		if token == "exceptions" && before != "." {
			if name, after := member(text, end); r.with[name] != "" {
				out.WriteString(r.with[name])
				r.used[name] = true
				at, before = after, name
				continue
			}
		}
		out.WriteString(token)
		if strings.TrimSpace(token) != "" {
			before = token
		}
		at = end
	}
	return out.String()
}

// member parses .⟨name⟩ at the index, and returns the index after it.
func member(text string, at int) (string, int) {
	next := func() string {
		for at < len(text) {
			end := typecheck.SkipToken(text, at)
			token := text[at:end]
			at = end
			if strings.TrimSpace(token) != "" {
				return token
			}
		}
		return ""
	}
	if next() != "." {
		return "", at
	}
	return next(), at
}

// mentions reports whether the expression contains the name as a whole word that is not a field of something.
func mentions(text, name string) bool {
	before := ""
	for at := 0; at < len(text); {
		end := typecheck.SkipToken(text, at)
		token := text[at:end]
		if token == name && before != "." {
			return true
		}
		if strings.TrimSpace(token) != "" {
			before = token
		}
		at = end
	}
	return false
}
