package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/cli/terminal"
	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/source"
	"github.com/ephor-dev/ephor/internal/strict"
	"github.com/ephor-dev/ephor/internal/wildcard"
)

// exceptionSet are the exceptions of one run, in the order in which they were read. One with a mistake is not among
// them; its diagnostics are.
type exceptionSet struct {
	exceptions []*policy.Exception
	places     []func(path string) diag.Position // of the exceptions
	diags      diag.List
}

// isException reports whether the object is an exception, of whatever family.
func isException(o source.Object) bool { return o.Kind() == "PolicyException" }

func (s *exceptionSet) add(o source.Object) {
	apiVersion, _ := o.Value["apiVersion"].(string)
	if !compile.OwnsException(apiVersion, o.Kind()) {
		s.diags.Add(foreignException(o, apiVersion))
		return
	}
	e, diags := compile.OneException(compile.Object{Value: o.Value, Pos: o.Pos})
	s.diags.Add(diags...)
	if !diags.HasErrors() {
		s.exceptions = append(s.exceptions, e)
		s.places = append(s.places, o.Pos)
	}
}

// join joins the exceptions to the rules that they name, and notes the names that fit none: rules of policies that are there, and policies
// that are called almost so. Whatever else they name may be a policy that just was not given.
func (s *exceptionSet) join(programs []*policy.Program) []*policy.Program {
	rules, keys := map[string][]string{}, []string{}
	for _, p := range programs {
		keys = append(keys, p.Key())
		for _, r := range p.Rules {
			rules[p.Key()] = append(rules[p.Key()], r.Name)
		}
	}
	for i, e := range s.exceptions {
		for k, wanted := range e.Rules {
			if wanted.AnyNamespace {
				continue // it names no rules, and perhaps a policy that just was not given
			}
			path := fmt.Sprintf("spec.exceptions[%d]", k)
			names, known := rules[wanted.Policy]
			if near := strict.Nearest(wanted.Policy, keys); !known && near != "" {
				s.warn(i, path+".policyName", "did you mean "+near+"?", "there is no policy "+wanted.Policy)
			}
			for n, name := range wanted.Names {
				if known && !slices.ContainsFunc(names, func(rule string) bool { return wildcard.Match(name, rule) }) {
					hint := "nothing is exempt by this name"
					if near := strict.Nearest(name, names); near != "" {
						hint = "did you mean " + near + "?"
					}
					s.warn(i, fmt.Sprintf("%s.ruleNames[%d]", path, n), hint, "the policy "+wanted.Policy+" has no rule "+name)
				}
			}
		}
	}
	return catalog.Join(programs, s.exceptions)
}

// warn adds a warning about an exception.
func (s *exceptionSet) warn(i int, path, hint, text string) {
	d := diag.Diagnostic{Severity: diag.Warning, Path: path, Summary: text, Hint: hint}
	if s.places[i] != nil {
		d.Pos = s.places[i](path)
	}
	s.diags.Add(d)
}

// foreignException says what to tell about an object in a file of exceptions that is none that we have.
func foreignException(o source.Object, apiVersion string) diag.Diagnostic {
	d := diag.Diagnostic{Pos: o.Pos("kind"), Hint: "it is not applied"}
	d.Summary = apiVersion + " " + o.Kind() + " is not an exception"
	if isException(o) {
		d.Summary = "exceptions of " + apiVersion + " are not supported by this version"
		d.Code, d.Name = diag.NotSupported, o.Kind()
	}
	return d
}

// loadExceptions reads and compiles everything in the paths.
func loadExceptions(paths []string, stdin io.Reader) exceptionSet {
	objects, diags := source.Load(paths, source.Options{Stdin: stdin, Recursive: true, Numbers: source.Exact})
	set := exceptionSet{diags: diags}
	for _, o := range objects {
		set.add(o)
	}
	return set
}

// exceptionsWithin reads and compiles the exceptions among resources. What is wrong with the resources themselves is
// found where they are evaluated.
func exceptionsWithin(inputs []source.Input) exceptionSet {
	var set exceptionSet
	for _, in := range inputs {
		docs, _ := source.Open(in)
		for _, d := range docs {
			if !d.MayHold("PolicyException") {
				continue // most of them: do not decode everything twice
			}
			objects, _ := d.Decode(source.Exact)
			for _, o := range objects {
				if isException(o) {
					set.add(o)
				}
			}
		}
	}
	return set
}

func (o *applyOptions) addExceptionFlags(f *pflag.FlagSet) {
	paths := terminal.Paths(&o.exceptions)
	f.VarP(paths, "exception", "e", "exceptions: files, directories, globs (repeat it, or separate by commas)")
	f.Var(paths, "exceptions", "the same as --exception")
	f.BoolVar(&o.exceptionsWithinResources, "exceptions-within-resources", false, "take the exceptions among the resources, and none from --exception")
	f.BoolVar(&o.exceptionsWithinResources, "exceptions-with-resources", false, "the same as --exceptions-within-resources")
	f.BoolVar(&o.exceptionsWithinPolicies, "exceptions-within-policies", false, "also take the exceptions among the policies")
	f.BoolVar(&o.generateExceptions, "generate-exceptions", false, "print exceptions for what fails instead of the failures")
	f.DurationVar(&o.exceptionTTL, "generated-exception-ttl", defaultExceptionTTL, "how long the exceptions printed are to live")
}

// inputs lists the resources, and reads the exceptions from where the flags say. Standard input is kept when both have
// to read it.
func (o *applyOptions) inputs(ctx context.Context, set policySet, c *cluster, stdin io.Reader) ([]source.Input, diag.List, exceptionSet, error) {
	var exceptions exceptionSet
	if o.exceptionsWithinResources && c != nil {
		exceptions = c.exceptionsIn(ctx, o.cluster.namespace)
	} else if o.exceptionsWithinResources {
		if stdin != nil && slices.Contains(o.resources, "-") {
			b, err := io.ReadAll(stdin)
			if err != nil {
				return nil, nil, exceptions, fmt.Errorf("read standard input: %w", err)
			}
			again, _ := source.Find(o.resources, source.Options{Stdin: bytes.NewReader(b)})
			exceptions = exceptionsWithin(again)
			stdin = bytes.NewReader(b)
		} else {
			again, _ := source.Find(o.resources, source.Options{})
			exceptions = exceptionsWithin(again)
		}
	} else {
		exceptions = loadExceptions(o.exceptions, stdin)
	}
	for _, e := range set.within {
		if o.exceptionsWithinPolicies {
			exceptions.add(e)
			continue
		}
		exceptions.diags.Add(diag.Diagnostic{Severity: diag.Warning, Pos: e.Pos("kind"),
			Summary: "the exception " + e.Name() + " among the policies is not applied", Hint: "add --exceptions-within-policies to apply it"})
	}
	if c != nil {
		return nil, nil, exceptions, nil // the resources are names
	}
	inputs, mistakes := source.Find(o.resources, source.Options{Stdin: stdin})
	return inputs, mistakes, exceptions, nil
}
