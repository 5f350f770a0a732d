// Command reference writes the reference from the declarations in the code: for the policy language its functions,
// operators, rule kinds, context entries and checks; for the controllers their flags and settings; for the command line
// its commands; for each kind and each file its fields.
//
//	go run ./hack/reference -out docs/reference -formats config/formats
//
// hack/generate.sh runs it, and hack/verify-generated.sh fails if its output differs from the committed files.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pages are the files with the functions that write them.
var pages = []struct {
	name  string
	write func(*page) error
}{
	{"functions", functions},
	{"cel-libraries", celLibraries},
	{"operators", operators},
	{"rule-kinds", ruleKinds},
	{"context-entries", contextEntries},
	{"checks", checks},
	{"policies", policies},
	{"configuration", configuration},
	{"flags", flags},
}

func main() {
	out := flag.String("out", "docs/reference", "directory for the pages")
	schemas := flag.String("formats", "config/formats", "directory for the schemas of files")
	flag.Parse()
	if err := run(*out, *schemas); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(dir, schemas string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range pages {
		var text page
		if err := p.write(&text); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, p.name+".md"), []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	if err := commands(filepath.Join(dir, "commands")); err != nil {
		return err
	}
	return definitions(filepath.Join(dir, "definitions"), schemas)
}

// page is the text of one file.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// title writes the beginning of the page.
func (p *page) title(title, intro string) {
	p.line("# %s\n\n<!-- Written by hack/reference from the declarations in the code. Do not edit. -->\n\n%s\n", title, intro)
}

// code writes a block of code.
func (p *page) code(language, text string) {
	p.line("```%s\n%s\n```\n", language, strings.TrimRight(text, "\n"))
}

// cell returns a text in the form for a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", ">", "&gt;").Replace(s)
}

// codeCell is cell for code, in which angle brackets are shown as they are.
func codeCell(s string) string {
	s = strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
	if strings.Contains(s, "`") {
		return "`` " + s + " ``"
	}
	return "`" + s + "`"
}
