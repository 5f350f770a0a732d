package charges

import (
	"context"
	"fmt"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/pattern"
)

// conditionRows are the operators of conditions, with two lists, a list and a text, and long texts with wildcards.
func conditionRows() (out []Row) {
	for _, o := range condition.Operators() {
		for _, s := range [][3]string{{"", "longs", "texts"}, {", text in a list", "as", "longs"}, {", lists", "lists", "listsEnd"}, {", wildcards", "as", "question"}, {", quantities", "fives", "fives"}, {", JSON", "as", "jsonFlat"}, {", numbers", "floats", "floats"}} {
			out = append(out, conditionRow("condition "+o.Name+s[0], o.Name, [2]string{s[1], s[2]}))
		}
	}
	return out
}

func conditionRow(name, operator string, sides [2]string) Row {
	return Row{Language: JMESPath, Name: name, Sizes: squareSizes, of: func(n int) (func() (int64, error), error) {
		set, diags := condition.Compile(map[string]any{"all": []any{map[string]any{"key": "{{ " + sides[0] + " }}", "operator": operator, "value": "{{ " + sides[1] + " }}"}}}, "conditions", nil)
		if len(diags) > 0 {
			return nil, fmt.Errorf("%v", diags)
		}
		root := values(document(sides[0]+" "+sides[1], n))
		return metered(func(env *jmespath.Env) error {
			_, err := set.Eval(env, root)
			return err
		}), nil
	}}
}

// patternRows are the comparisons of the pattern language.
func patternRows() (out []Row) {
	for _, p := range [][2]string{
		{"alternatives", "a | b | c | d | ?*e | f* | *g*"}, {"question marks", "*??????????????????????????????b*"}, {"quantity", ">5Mi & <1Gi"}, {"range", "1Mi-1Gi"}, {"text", "aaa*"},
	} {
		out = append(out, patternRow("pattern, "+p[0], "as", p[1], textSizes), patternRow("pattern, "+p[0]+", lists", "longs", []any{p[1]}, listSizes))
	}
	return append(out, patternRow("pattern, quantities of a long text", "digits", ">5Mi & <1Gi | 1-10", textSizes), patternRow("pattern, a number as a text", "decimal", 1.5, textSizes), patternRow("pattern, maps", "objects", []any{map[string]any{"(k)": "k*", "v": ">=0"}}, listSizes), patternRow("pattern, any keys", "map", map[string]any{"key-*": "value"}, listSizes))
}

func patternRow(name, member string, p any, sizes [3]int) Row {
	return Row{Language: JMESPath, Name: name, Sizes: sizes, of: func(n int) (func() (int64, error), error) {
		compiled, diags := pattern.Compile(map[string]any{member: p}, "pattern", nil)
		if len(diags) > 0 {
			return nil, fmt.Errorf("%v", diags)
		}
		object := document(member, n)
		return metered(func(env *jmespath.Env) error {
			_, err := compiled.Match(env, values(object), object)
			return err
		}), nil
	}}
}

// metered returns an evaluation with the budget of a rule.
func metered(f func(*jmespath.Env) error) func() (int64, error) {
	env := &jmespath.Env{Meter: &budget.Meter{}}
	return func() (int64, error) {
		env.Meter.Reset(context.Background(), budget.DefaultSteps, budget.DefaultBytes)
		err := f(env)
		steps, bytes := env.Meter.Used()
		return steps + bytes/8, err
	}
}

// values is an object whose fields are looked up by name.
type values map[string]any

func (v values) Field(name string) (any, bool, error) { x, ok := v[name]; return x, ok, nil }

func (v values) Value() (any, error) { return map[string]any(v), nil }
