package loader

import (
	"fmt"

	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
)

// query is the jmesPath that an entry applies to its own data. The nil query returns the data unchanged.
type query struct {
	entry  string
	source string
	text   *template.Template
	expr   *jmespath.Expr // if the text has no variables
}

func (c *compiled) query(entry, source, path string) *query {
	if source == "" {
		return nil
	}
	q := &query{entry: entry, source: source, text: template.Compile(source, template.Options{Allowance: c.allowance})}
	c.diags.Add(at(path, q.text)...)
	c.reads.Add(q.text)
	if text, static := q.text.Static(); static {
		expr, err := jmespath.CompileWithin(c.allowance, text.(string), jmespath.Quoting{})
		if err != nil {
			c.diags.Errorf(path, "failed to parse JMESPath %s: %v", source, err)
			c.diags.Hint("correct the expression; `ephor jp query` tries it")
			return q
		}
		q.expr = expr
	}
	return q
}

func (q *query) apply(before *scope.Scope, data any) (any, error) {
	if q == nil {
		return data, nil
	}
	expr, text := q.expr, q.source
	if expr == nil {
		var fault, err error
		if expr, text, fault, err = q.text.EvalQuery(before.QueryEnv(), before, true); err != nil {
			return nil, fmt.Errorf("failed to substitute variables in context entry %s: %w", q.entry, err)
		}
		if fault != nil {
			return nil, fmt.Errorf("failed to apply jmespath %s to context entry %s: %w", text, q.entry, fault)
		}
	}
	result, err := expr.Search(before.QueryEnv(), data)
	if err != nil {
		return nil, fmt.Errorf("failed to apply jmespath %s to context entry %s: JMESPath query failed: %w", text, q.entry, err)
	}
	return result, nil
}

// text compiles a text of the entry that may hold variables.
func (c *compiled) text(source, path string) *template.Template {
	t := template.Compile(source, template.Options{Allowance: c.allowance})
	c.diags.Add(at(path, t)...)
	c.reads.Add(t)
	return t
}

func substitute(entry string, t *template.Template, before *scope.Scope) (string, error) {
	s, err := t.EvalString(before.QueryEnv(), before)
	if err != nil {
		return "", fmt.Errorf("failed to substitute variables in context entry %s: %w", entry, err)
	}
	return s, nil
}
