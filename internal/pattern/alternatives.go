package pattern

import (
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/template"
)

// Alternatives is a compiled validate.anyPattern: the resource must match one of several patterns.
type Alternatives struct {
	patterns []*Pattern
}

// Choice is the outcome of matching Alternatives. Status is Pass, Fail or Skip; Passed is the index of the first matching
// alternative, -1 for none; Verdicts are those of all alternatives if none matches.
type Choice struct {
	Status   Status
	Passed   int
	Verdicts []Verdict
}

// CompileAlternatives compiles the raw value of anyPattern. path is its field path.
func CompileAlternatives(v any, path string, allowance *compilecost.Allowance) (*Alternatives, diag.List) {
	var diags diag.List
	list, ok := v.([]any)
	if !ok {
		diags.Errorf(path, "failed to deserialize anyPattern, expect array: %s", describe(v))
		diags.Hint("write a list, with - before each pattern")
		return &Alternatives{}, diags
	}
	a := &Alternatives{patterns: make([]*Pattern, len(list))}
	for i, raw := range list {
		p, d := compileAt(raw, path+"["+strconv.Itoa(i)+"]", "/"+strconv.Itoa(i), allowance)
		a.patterns[i] = p
		diags.Add(d...)
	}
	return a, diags
}

func describe(v any) string {
	switch v.(type) {
	case nil:
		return "it is null"
	case map[string]any:
		return "it is a map"
	}
	return "it is a scalar"
}

// Match tries the alternatives in order until one matches. As in Kyverno, all alternatives are substituted before the first is
// tried, so a variable that cannot be resolved in any of them is an error even if an earlier one matches.
func (a *Alternatives) Match(env *jmespath.Env, root jmespath.Root, resource any) (Choice, error) {
	values := make([][]any, 0, 8) // values of the variables; on the stack for the usual few alternatives
	for _, p := range a.patterns {
		v, err := p.resolve(env, root)
		if err != nil {
			return Choice{}, err
		}
		values = append(values, v)
	}
	for i, p := range a.patterns {
		ok, err := p.fits(env, values[i], resource)
		if err != nil {
			return Choice{}, err
		}
		if ok {
			return Choice{Status: Pass, Passed: i}, nil
		}
	}
	c := Choice{Status: Skip, Passed: -1}
	for i, p := range a.patterns {
		v, err := p.explain(env, values[i], resource)
		if err != nil {
			return Choice{}, err
		}
		if v.Status != Skip {
			c.Status = Fail
		}
		c.Verdicts = append(c.Verdicts, v)
	}
	return c, nil
}

// Describe lists why no alternative matches, in the terms of the policy language for the rule named rule: `rule r[0] failed at
// path /spec/x/ rule r[1] failed: ⟨why⟩` if the Choice is Fail, without the alternatives that do not apply; `rule r[0] skipped:
// ⟨why⟩ …` if it is Skip; nothing if it is Pass.
func (c Choice) Describe(rule string) string {
	if c.Status == Pass {
		return ""
	}
	var parts []string
	for i, v := range c.Verdicts {
		name := "rule " + rule + "[" + strconv.Itoa(i) + "] "
		switch {
		case v.Status == Skip && c.Status == Skip:
			parts = append(parts, name+"skipped: "+v.Message)
		case v.Status == Fail:
			parts = append(parts, name+"failed at path "+v.Path)
		case v.Status == Error:
			parts = append(parts, name+"failed: "+v.Message)
		}
	}
	return strings.Join(parts, " ")
}

// Templates returns the templates of the variables of all alternatives, in document order.
func (a *Alternatives) Templates() []*template.Template {
	var all []*template.Template
	for _, p := range a.patterns {
		all = append(all, p.templates...)
	}
	return all
}
