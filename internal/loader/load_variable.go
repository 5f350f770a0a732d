package loader

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/value"
)

var variable = Loader{
	Field: "variable",
	Doc:   "A value written in the policy, or the result of a JMESPath query over that value or over all variables. If the query fails or its result is null, the default is used.",
	Examples: []Example{
		{"A label, or a default where it is missing", `name: team
variable:
  jmesPath: request.object.metadata.labels.team
  default: none
`},
		{"A part of a value that stands in the policy", `name: limit
variable:
  value:
    prod: 20
    test: 3
  jmesPath: "{{ request.object.metadata.labels.stage || 'test' }}"
  default: 3
`},
	},
	Owns:    func(e *kyvernov1.ContextEntry) bool { return e.Variable != nil },
	compile: compileVariable,
}

// variableEntry is a compiled `variable` entry; missing parts are nil.
type variableEntry struct {
	name   string
	value  *template.Template
	def    *template.Template
	path   *template.Template // text of the query
	query  *jmespath.Expr     // the query, if its text has no variables
	source string             // the text of the query as authored
}

func compileVariable(e *kyvernov1.ContextEntry, in input) compiled {
	c := compiled{allowance: in.allowance}
	v := e.Variable
	if v.Value == nil && v.JMESPath == "" {
		c.diags.Errorf(in.path, "a variable must define a value or a jmesPath expression")
		c.diags.Hint("add value: with the value itself, or jmesPath: with an expression")
	}
	if v.Default != nil && v.JMESPath == "" {
		c.diags.Errorf(in.path+".default", "a variable must define a default value only when a jmesPath expression is defined")
		c.diags.Hint("add a jmesPath, or write the default as the value")
	}
	x := &variableEntry{name: e.Name, source: v.JMESPath}
	x.value = c.template(v.Value, in.path+".value")
	x.def = c.template(v.Default, in.path+".default")
	if v.JMESPath != "" {
		x.path = template.Compile(v.JMESPath, template.Options{Allowance: c.allowance})
		c.diags.Add(at(in.path+".jmesPath", x.path)...)
		c.reads.Add(x.path)
		if text, static := x.path.Static(); static {
			query, err := jmespath.CompileWithin(c.allowance, text.(string), jmespath.Quoting{})
			if err != nil {
				c.diags.Errorf(in.path+".jmesPath", "failed to parse JMESPath %s: %v", v.JMESPath, err)
				c.diags.Hint("correct the expression; `ephor jp query` tries it")
			} else if x.query = query; x.value == nil {
				c.reads.AddExpr(query)
			}
		} else if x.value == nil {
			c.addDynamic(x.source, x.path.Roots())
			c.dynamic = x.source
		}
	}
	if !c.diags.HasErrors() {
		c.load = x.load
	}
	return c
}

// dataNames are the variables that are never written by the policy's author.
var dataNames = []string{"request", "target", "images", "serviceAccountName", "serviceAccountNamespace"}

// addDynamic adds the reads of a query whose text holds variables, which read the names. Data may stand in the texts of a query ('…')
// without being a part of it; any other query is known only at run time.
func (c *compiled) addDynamic(source string, names []string) {
	// The stand-in is no name and no number: where it compiles, it is inside a text or a quoted name.
	outline, ok := template.Outline(source, "? ?")
	if ok && !strings.ContainsAny(source, "\"`") && !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(dataNames, n) }) {
		if query, err := jmespath.Compile(outline); err == nil {
			c.reads.AddOutline(query)
			return
		}
	}
	c.reads.AddNames("*")
}

// template compiles a value of the entry; nil stays nil.
func (c *compiled) template(raw *apiextensionsv1.JSON, path string) *template.Template {
	if raw == nil {
		return nil
	}
	v, err := value.DecodeJSON(raw.Raw)
	if err != nil {
		c.diags.Errorf(path, "invalid JSON: %v", err)
		c.diags.Hint("write a value of YAML or JSON, with texts in quotes")
		return nil
	}
	t := template.Compile(v, template.Options{Allowance: c.allowance})
	c.diags.Add(at(path, t)...)
	c.reads.Add(t)
	return t
}

// at returns the diagnostics of a template with the field path of the entry prepended.
func at(path string, t *template.Template) diag.List {
	out := t.Diags()
	for i := range out {
		out[i].Path = path
	}
	return out
}

func (x *variableEntry) load(before *scope.Scope) (any, error) {
	var input any
	if x.value != nil {
		v, err := x.value.Eval(before.QueryEnv(), before)
		if err != nil {
			return nil, fmt.Errorf("failed to substitute variables in context entry %s: %w", x.name, err)
		}
		input = v
	}
	if x.path == nil {
		return x.notNil(input)
	}
	result, err := x.search(before, input)
	if budget.Over(err) {
		return nil, err
	}
	if (err != nil || result == nil) && x.def != nil {
		result, err = x.def.Eval(before.QueryEnv(), before)
		if err != nil {
			return nil, fmt.Errorf("failed to substitute variables in context entry %s: %w", x.name, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return x.notNil(result)
}

func (x *variableEntry) search(before *scope.Scope, input any) (any, error) {
	query, text := x.query, x.source
	if query == nil {
		var fault, err error
		query, text, fault, err = x.path.EvalQuery(before.QueryEnv(), before, x.value != nil)
		if other := (*template.NotStringError)(nil); errors.As(err, &other) {
			return nil, fmt.Errorf("jmespath value must be a string %s %s: <nil>", x.name, x.source)
		}
		if err != nil {
			return nil, fmt.Errorf("failed to substitute variables in context entry %s: %w", x.name, err)
		}
		if fault != nil {
			return nil, fmt.Errorf("failed to apply jmespath %s to variable %s: %w", text, value.Print(input, maxShown), fault)
		}
	}
	root := input
	if x.value == nil {
		root = jmespath.Root(before)
	}
	result, err := query.Search(before.QueryEnv(), root)
	if err != nil {
		return nil, fmt.Errorf("failed to apply jmespath %s to variable %s: JMESPath query failed: %w", text, value.Print(input, maxShown), err)
	}
	return result, nil
}

// maxShown bounds the part of a value that an error shows.
const maxShown = 4096

func (x *variableEntry) notNil(v any) (any, error) {
	if v == nil {
		return nil, fmt.Errorf("failed to add context entry for variable %s since it evaluated to nil", x.name)
	}
	return v, nil
}
