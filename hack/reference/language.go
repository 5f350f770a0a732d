package main

import (
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rule"
	"ephor.invalid/ephor/internal/value"
)

func functions(p *page) error {
	p.title("Functions", "The functions of JMESPath expressions in policies. `ephor jp query` evaluates them, `ephor jp function` lists those that are not\n"+
		"standard JMESPath. Every example is run as a test.")
	for _, builtin := range []bool{false, true} {
		if builtin {
			p.line("## Functions of standard JMESPath\n")
		} else {
			p.line("## Functions of policies\n")
		}
		for _, f := range jmespath.Functions() {
			if f.Builtin == builtin {
				function(p, f)
			}
		}
	}
	return nil
}

func function(p *page, f jmespath.Function) {
	p.line("### %s\n\n`%s`\n\n%s\n", f.Name, f.Signature(), f.Doc)
	if len(f.Examples) == 0 {
		return
	}
	p.line("| Expression | Document | Result |\n|---|---|---|")
	for _, e := range f.Examples {
		input, result := "", codeCell(e.Result)
		if e.Input != "" {
			input = codeCell(shorten(e.Input))
		}
		if e.Error != "" {
			result = "error: " + cell(shorten(e.Error))
		}
		p.line("| %s | %s | %s |", codeCell(shorten(e.Expression)), input, shorten(result))
	}
	p.line("")
}

// shorten keeps tables readable if an example needs a long text, such as a certificate.
func shorten(s string) string {
	const most = 200
	if r := []rune(s); len(r) > most {
		cut := string(r[:most]) + "…"
		if strings.HasPrefix(s, "`") {
			cut += "`"
		}
		return cut
	}
	return s
}

func operators(p *page) error {
	p.title("Operators", "The operators of conditions: preconditions, deny rules, exceptions, cleanup policies. Variables in key and value are\n"+
		"evaluated first. Every example is run as a test.")
	for _, op := range condition.Operators() {
		p.line("## %s\n\n%s\n", op.Name, op.Doc)
		if len(op.Aliases) > 0 {
			p.line("Other spellings: %s\n", strings.Join(op.Aliases, ", "))
		}
		switch {
		case len(op.Replacements) > 0:
			p.line("Deprecated: use %s.\n", strings.Join(op.Replacements, " or "))
		case op.Deprecated:
			p.line("Kept for old policies.\n")
		}
		p.line("| Key | Value | Holds |\n|---|---|---|")
		for _, e := range op.Examples {
			holds := "no"
			if e.Want {
				holds = "yes"
			}
			p.line("| %s | %s | %s |", codeCell(value.JSON(e.Key)), codeCell(value.JSON(e.Value)), holds)
		}
		p.line("")
	}
	return nil
}

var stages = []struct {
	stage policy.Stage
	name  string
}{
	{policy.StageMutate, "mutate"}, {policy.StageVerifyImages, "verifyImages"}, {policy.StageValidate, "validate"},
	{policy.StageGenerate, "generate"}, {policy.StageMutateExisting, "mutateExisting"}, {policy.StageDelete, "delete"},
}

// stageNames returns the names of the stages in which a rule kind takes part; known is false if one of them has no name.
func stageNames(s policy.Stage) (names string, known bool) {
	var out []string
	for _, x := range stages {
		if s.Has(x.stage) {
			out = append(out, x.name)
			s &^= x.stage
		}
	}
	return strings.Join(out, ", "), s == 0 && len(out) > 0
}

func ruleKinds(p *page) error {
	p.title("Rule kinds", "The kinds of rules, by the field of the API that defines them. A rule has exactly one of these fields. An admission request passes through the\n"+
		"stages in the order mutate, verifyImages, validate, generate.")
	p.line("| Field | Stage | What it does |\n|---|---|---|")
	for _, k := range rule.Kinds() {
		stage, ok := stageNames(k.Stage)
		if !ok {
			return fmt.Errorf("rule kind %s: stage %d has no name", k.Name, k.Stage)
		}
		p.line("| `%s` | %s | %s |", k.Field(), stage, cell(k.Doc))
	}
	return nil
}
