package load

import (
	"fmt"
	"io"
	"slices"
	"time"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// ExceptionSet holds the exceptions of one run, in the order in which they were read. It holds only the diagnostics of
// exceptions with mistakes.
type ExceptionSet struct {
	Exceptions []*policy.Exception
	places     []func(path string) diag.Position // the positions in the files of the exceptions
	Diags      diag.List
}

// isException reports whether the object is an exception of any family.
func isException(o source.Object) bool { return o.Kind() == "PolicyException" }

func (s *ExceptionSet) Add(o source.Object) {
	apiVersion, _ := o.Value["apiVersion"].(string)
	if !compile.OwnsException(apiVersion, o.Kind()) {
		s.Diags.Add(foreignException(o, apiVersion))
		return
	}
	e, diags := compile.ExceptionWith(compile.Object{Value: o.Value, Pos: o.Pos}, family.Options{CommandLine: true})
	s.Diags.Add(diags...)
	if !diags.HasErrors() {
		s.Exceptions = append(s.Exceptions, e)
		s.places = append(s.places, o.Pos)
	}
}

// NotApplied warns of the exceptions among the policies that are not in the set.
func (s *ExceptionSet) NotApplied(policies PolicySet, hint string) (out diag.List) {
	for _, o := range policies.Within {
		if !slices.ContainsFunc(s.Exceptions, func(e *policy.Exception) bool { return value.Equal(e.Source(), o.Value) }) {
			out.Add(diag.Diagnostic{Severity: diag.Warning, Pos: o.Pos("kind"), Summary: "the exception " + o.Name() + " among the policies is not applied", Hint: hint})
		}
	}
	return out
}

// InForce returns the exceptions that have not ended at the time. It warns of the others.
func (s *ExceptionSet) InForce(now time.Time) (out []*policy.Exception) {
	for i, e := range s.Exceptions {
		if e.Expired(now) {
			s.warn(i, "", "it is not applied", "the exception "+e.Key()+" ended at "+e.Expires.UTC().Format(time.RFC3339))
			continue
		}
		out = append(out, e)
	}
	return out
}

// Join joins the exceptions that are in force at the time to the rules that they name. It warns of those that have ended, of unknown rules of
// known policies, and of policy names that are similar to a known one. Other names may belong to policies that were not given.
func (s *ExceptionSet) Join(programs []*policy.Program, now time.Time) []*policy.Program {
	for i, e := range s.Exceptions {
		rules, keys := rulesFor(e, programs)
		for k, wanted := range e.Rules {
			if wanted.AnyNamespace {
				continue // it names no rules, and its policy may not have been given
			}
			path := fmt.Sprintf("spec.exceptions[%d]", k)
			names, known := rules[wanted.Policy]
			if near := strict.Nearest(wanted.Policy, keys); !known && near != "" {
				s.warn(i, path+".policyName", "did you mean "+near+"?", "there is no policy "+wanted.Policy)
			}
			for n, name := range wanted.Names {
				if known && !slices.ContainsFunc(names, func(rule string) bool { return wildcard.Match(name, rule) }) {
					hint := "this name exempts nothing"
					if near := strict.Nearest(name, names); near != "" {
						hint = "did you mean " + near + "?"
					}
					s.warn(i, fmt.Sprintf("%s.ruleNames[%d]", path, n), hint, "the policy "+wanted.Policy+" has no rule "+name)
				}
			}
		}
	}
	return catalog.Join(programs, s.InForce(now))
}

// rulesFor returns the policies that the exception may refer to, by key, and the names of their rules.
func rulesFor(e *policy.Exception, programs []*policy.Program) (rules map[string][]string, keys []string) {
	rules = map[string][]string{}
	for _, p := range programs {
		if !slices.Contains(e.Kinds, p.Kind) {
			continue
		}
		keys = append(keys, p.Key())
		for _, r := range p.Rules {
			rules[p.Key()] = append(rules[p.Key()], r.Name)
		}
	}
	return rules, keys
}

// warn adds a warning about an exception.
func (s *ExceptionSet) warn(i int, path, hint, text string) {
	s.Diags.Add(s.warning(i, path, hint, text))
}

func (s *ExceptionSet) warning(i int, path, hint, text string) diag.Diagnostic {
	d := diag.Diagnostic{Severity: diag.Warning, Code: diag.Unchecked, Path: path, Summary: text, Hint: hint}
	if s.places[i] != nil {
		d.Pos = s.places[i](path)
	}
	return d
}

// Unevaluated are exceptions that could not be evaluated, each once.
type Unevaluated []policy.ExceptionError

// Add adds the exceptions that are not in the list, with the error for the first object.
func (u *Unevaluated) Add(list ...policy.ExceptionError) {
	for _, e := range list {
		if !slices.ContainsFunc(*u, func(x policy.ExceptionError) bool { return x.Exception == e.Exception }) {
			*u = append(*u, e)
		}
	}
}

// Unevaluated returns a warning for each exception that could not be evaluated, in the order of the set.
func (s *ExceptionSet) Unevaluated(list Unevaluated) (out diag.List) {
	for i, e := range s.Exceptions {
		at := slices.IndexFunc(list, func(x policy.ExceptionError) bool { return x.Exception == e })
		if at < 0 {
			continue
		}
		x := &list[at]
		out.Add(s.warning(i, "", "correct its conditions, so that they have a value for every object",
			fmt.Sprintf("the exception %s cannot be evaluated for some objects of %s %s: %s", e.Key(), x.Program.Kind, x.Program.Key(), x.Message)))
	}
	return out
}

// foreignException returns the diagnostic for an object in a file of exceptions that is not a supported exception.
func foreignException(o source.Object, apiVersion string) diag.Diagnostic {
	d := diag.Diagnostic{Pos: o.Pos("kind"), Hint: "it is not applied"}
	d.Summary = apiVersion + " " + o.Kind() + " is not an exception"
	if isException(o) {
		d.Summary = "exceptions of " + apiVersion + " are not supported by this version"
		d.Code, d.Name = diag.NotSupported, o.Kind()
	}
	return d
}

// Exceptions reads and compiles all exceptions in the paths.
func Exceptions(paths []string, stdin io.Reader) ExceptionSet {
	objects, diags := source.Load(paths, source.Options{Stdin: stdin, Recursive: true, Numbers: source.Exact})
	set := ExceptionSet{Diags: diags}
	for _, o := range objects {
		set.Add(o)
	}
	return set
}

// ExceptionsWithin reads and compiles the exceptions among the resources. It ignores mistakes in the resources
// themselves, which their evaluation reports.
func ExceptionsWithin(inputs []source.Input) ExceptionSet {
	var set ExceptionSet
	for _, in := range inputs {
		docs, _ := source.Open(in)
		for _, d := range docs {
			if !d.MayHold("PolicyException") {
				continue // skips most objects, so that they are not decoded twice
			}
			objects, _ := d.Decode(source.Exact)
			for _, o := range objects {
				if isException(o) {
					set.Add(o)
				}
			}
		}
	}
	return set
}
