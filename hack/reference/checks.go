package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/lint"
)

// areas are the packages that find mistakes in policies, with the part of a policy that they check.
var areas = []struct{ dir, title string }{
	{"internal/family/classic", "The policy as a whole"},
	{"internal/match", "match and exclude"},
	{"internal/loader", "Context"},
	{"internal/condition", "Conditions"},
	{"internal/pattern", "Patterns"},
	{"internal/rule", "Rules"},
	{"internal/pss", "Pod security"},
	{"internal/autogen", "Generated rules for Pod controllers"},
	{"internal/family/cleanup", "Cleanup policies"},
	{"internal/exception", "Exceptions"},
}

func checks(p *page) error {
	p.title("Checks", "What is checked before a policy is used: by `ephor lint`, `apply` and `test`, and at admission. The first part are likely mistakes,\n"+
		"which only `ephor lint` looks for; the last lists what makes a policy refused or accepted with a warning. `…` stands for what\n"+
		"differs from case to case.")
	p.line("## Likely mistakes\n")
	for _, c := range lint.Checks() {
		if c.Example == "" {
			continue
		}
		p.line("### %s\n\n%s\n", c.Name, c.Doc)
		p.code("yaml", c.Example)
	}
	p.line("## Codes\n\nA code names the meaning of a mistake, for programs: texts may change, codes do not. `ephor lint` prints it behind the text, as `code` in\n" +
		"JSON, and as `ruleId` in SARIF. A diagnostic without a code is identified by its text alone; JSON and SARIF have `error` or `warning` there. The code of a\n" +
		"likely mistake is its name above.\n\n| Code | Meaning |\n|---|---|")
	for _, c := range diag.Codes() {
		p.line("| `%s` | %s |", c.Code, c.Doc)
	}
	p.line("\n## Mistakes\n")
	for _, a := range areas {
		found, err := mistakes(a.dir)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if len(found) == 0 {
			continue
		}
		p.line("### %s\n\n| | Code | Text | How to correct it |\n|---|---|---|---|", a.title)
		for _, m := range found {
			if m.hint == "" {
				return fmt.Errorf("%s: the mistake %q has no hint how to correct it: call Hint after it", a.dir, m.text)
			}
			p.line("| %s | %s | %s | %s |", m.severity, m.code, cell(m.text), cell(m.hint))
		}
		p.line("")
	}
	return nil
}

// mistake is one text that a package reports.
type mistake struct{ severity, code, text, hint string }

// mistakes finds the calls of Errorf and Warnf of diagnostics, with the following hint, in the sources of a package.
func mistakes(dir string) ([]mistake, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	var sources []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, filepath.Join(dir, e.Name()), nil, 0)
		if err != nil {
			return nil, err
		}
		sources = append(sources, f)
	}
	r := reader{constants: constants(sources), codes: codes()}
	for _, f := range sources {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				r.statements(n.List)
			case *ast.CaseClause:
				r.statements(n.Body)
			}
			return true
		})
	}
	slices.SortFunc(r.found, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.severity, b.severity), cmp.Compare(a.text, b.text), cmp.Compare(a.hint, b.hint))
	})
	return slices.Compact(r.found), nil
}

type reader struct {
	constants map[string]string
	codes     map[string]string // by the names of their constants, without hyphens and in lower case
	found     []mistake
}

func (r *reader) statements(list []ast.Stmt) {
	for i, s := range list {
		name, args := method(s)
		if len(args) < 2 {
			continue
		}
		m := mistake{severity: "error"}
		switch name {
		case "Warnf":
			m.severity = "warning"
			fallthrough
		case "Errorf":
			m.text = r.text(args[1], args[2:])
		case "Required", "Forbidden":
			m.code, m.text = r.codes[strings.ToLower(name)], fieldTexts[name]
			if why := r.text(args[1], nil); why != "" {
				m.text += ": " + why
			}
		case "Invalid", "Unsupported":
			m.code, m.text = r.codes[strings.ToLower(name)+"value"], fieldTexts[name]+"…"
			if name == "Invalid" && len(args) > 2 {
				m.text += ": " + r.text(args[2], nil)
			}
		case "TooLong":
			m.code, m.text = r.codes["toolong"], fieldTexts[name]
		default:
			continue
		}
		for _, next := range list[i+1:] {
			name, args := method(next)
			if name == "Plain" && len(args) > 0 {
				m.text = r.text(args[0], args[1:])
			} else if name == "Hint" && len(args) > 0 {
				m.hint = r.text(args[0], args[1:])
			} else if code, ok := codeOf(args); ok && name == "Code" {
				m.code = r.codes[strings.ToLower(code)]
			} else {
				break
			}
		}
		if m.hint == "" && name == "Unsupported" {
			m.hint = "use one of the supported values"
		}
		if m.code != "" {
			m.code = "`" + m.code + "`"
		}
		if strings.Trim(m.text, "… :") != "" {
			r.found = append(r.found, m)
		}
	}
}

// fieldTexts are the beginnings of texts of mistakes in fields.
var fieldTexts = map[string]string{
	"Required": "Required value", "Forbidden": "Forbidden", "Invalid": "Invalid value: ",
	"Unsupported": "Unsupported value: …: supported values: ", "TooLong": "Too long: may not be more than … bytes",
}

func codes() map[string]string {
	out := map[string]string{}
	for _, c := range diag.Codes() {
		out[strings.ReplaceAll(string(c.Code), "-", "")] = string(c.Code)
	}
	return out
}

// codeOf returns the name of the constant diag.X that is the first argument of a call of Code.
func codeOf(args []ast.Expr) (string, bool) {
	if len(args) == 0 {
		return "", false
	}
	selector, ok := args[0].(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	return selector.Sel.Name, true
}

// method returns the method that a statement calls, with its arguments; it ignores functions of packages.
func method(s ast.Stmt) (string, []ast.Expr) {
	x, ok := s.(*ast.ExprStmt)
	if !ok {
		return "", nil
	}
	call, ok := x.X.(*ast.CallExpr)
	if !ok {
		return "", nil
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", nil
	}
	return selector.Sel.Name, call.Args
}

var verb = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)

// text returns a format with the known arguments filled in.
func (r *reader) text(format ast.Expr, args []ast.Expr) string {
	s, ok := r.known(format)
	if !ok {
		return "…"
	}
	i := 0
	s = verb.ReplaceAllStringFunc(s, func(v string) string {
		out := "…"
		if i < len(args) && strings.HasSuffix(v, "s") {
			if known, ok := r.known(args[i]); ok {
				out = verb.ReplaceAllString(known, "…")
			}
		}
		i++
		return out
	})
	return strings.ReplaceAll(s, "%%", "%")
}

// known returns the text of a literal, of a constant, or of a concatenation of them.
func (r *reader) known(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, err := strconv.Unquote(e.Value)
			return s, err == nil
		}
	case *ast.Ident:
		s, ok := r.constants[e.Name]
		return s, ok
	case *ast.ParenExpr:
		return r.known(e.X)
	case *ast.BinaryExpr:
		left, knownLeft := r.known(e.X)
		right, knownRight := r.known(e.Y)
		if !knownLeft {
			left = "…"
		}
		if !knownRight {
			right = "…"
		}
		return left + right, e.Op == token.ADD && (knownLeft || knownRight)
	}
	return "", false
}

// constants returns the constant texts of a package.
func constants(files []*ast.File) map[string]string {
	r := reader{constants: map[string]string{}}
	for range 2 { // a constant may be built from another
		for _, f := range files {
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.CONST {
					continue
				}
				for _, s := range g.Specs {
					v, ok := s.(*ast.ValueSpec)
					if !ok {
						continue
					}
					for i := range min(len(v.Names), len(v.Values)) {
						if text, ok := r.known(v.Values[i]); ok {
							r.constants[v.Names[i].Name] = text
						}
					}
				}
			}
		}
	}
	return r.constants
}
