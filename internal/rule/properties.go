package rule

import (
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/value"
)

// properties are the reportProperties of a rule, compiled.
type properties struct {
	static  map[string]string // shared by all results; must not be changed
	dynamic []property
}

type property struct {
	name, text string
	template   *template.Template
}

// properties compiles reportProperties. A value with unresolved variables is reported as written, because additional texts in a report
// must not change the result.
func (c *compiler) properties(in map[string]string, path string) *properties {
	if len(in) == 0 {
		return nil
	}
	p := &properties{static: in}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		t := template.Compile(in[name], template.Options{Allowance: c.in.Allowance})
		for _, d := range t.Diags() {
			d.Path = path + "." + name
			c.diags.Add(d)
		}
		c.reads.Add(t)
		if _, static := t.Static(); !static {
			p.dynamic = append(p.dynamic, property{name, in[name], t})
		}
	}
	return p
}

// resolve returns the properties for one result.
func (p *properties) resolve(s *scope.Scope) map[string]string {
	if p == nil {
		return nil
	}
	if len(p.dynamic) == 0 {
		return p.static
	}
	out := maps.Clone(p.static)
	for _, d := range p.dynamic {
		out[d.name] = d.text
		v, err := d.template.Eval(s.QueryEnv(), s)
		if err == nil {
			err = s.Env.Meter.Text(v)
		}
		if err == nil {
			out[d.name] = text(v)
		}
	}
	return out
}

// merge returns the properties of the rule and those of its handler, which take precedence. It changes neither map.
func merge(written, found map[string]string) map[string]string {
	switch {
	case len(found) == 0:
		return written
	case len(written) == 0:
		return found
	}
	out := maps.Clone(written)
	maps.Copy(out, found)
	return out
}

// text formats a value in the way in which a variable appears inside a larger text: strings unchanged, other values as JSON.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return value.JSON(v)
}
