package main

import (
	"strings"

	"ephor.invalid/ephor/internal/cel/env"
)

// celKinds are the kinds whose expressions have libraries, with the columns of the table.
var celKinds = []struct {
	column string
	kind   env.Kind
}{
	{"Validating", env.Validating}, {"Mutating", env.Mutating}, {"Generating", env.Generating},
	{"Deleting", env.Deleting}, {"ImageValidating", env.ImageValidating}, {"matchImageReferences", env.ImageReferences},
	{"mode HTTP", env.HTTPChecks}, {"mode Envoy", env.EnvoyChecks},
	{"native", env.Native},
}

func celLibraries(p *page) error {
	p.title("CEL libraries", "The libraries of CEL expressions in the policies of policies.kyverno.io, and in the API server's own policies (native). Every example is\n"+
		"run as a test. All policies also have the functions of the API server's environment; GeneratingPolicies lack macros with two variables.")
	p.line("| Library |%s", columns(func(i int) string { return " " + celKinds[i].column + " |" }))
	p.line("|---|%s", columns(func(int) string { return "---|" }))
	for _, l := range env.Libraries {
		p.line("| %s |%s", l.Name, columns(func(i int) string {
			if l.In(celKinds[i].kind) {
				return " yes |"
			}
			return " – |"
		}))
	}
	p.line("")
	for _, l := range env.Libraries {
		p.line("## %s\n\n%s\n", l.Name, l.Doc)
		for i := range l.Functions {
			celFunction(p, &l.Functions[i])
		}
	}
	return nil
}

func columns(of func(i int) string) string {
	var out strings.Builder
	for i := range celKinds {
		out.WriteString(of(i))
	}
	return out.String()
}

func celFunction(p *page, f *env.Function) {
	p.line("### %s\n\n%s\n", f.Names[0], f.Doc)
	if len(f.Names) > 1 {
		p.line("Other spellings: `%s`\n", strings.Join(f.Names[1:], "`, `"))
	}
	for _, o := range f.Overloads {
		note := ""
		switch cluster, namespaced := o.Reaches(); {
		case !namespaced:
			note = ", in policies of the cluster"
		case !cluster:
			note = ", in namespaced policies"
		}
		p.line("- `%s`%s", f.Signature(o), note)
	}
	p.line("\n| Expression | Result |\n|---|---|\n| %s | %s |\n", codeCell(shorten(f.Example)), codeCell(shorten(f.Result)))
}
