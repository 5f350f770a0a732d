package ephor_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The check follows a text through the variables of one function, not through arguments and private fields.
//
// readers are the functions that may read the texts of errors and messages, each with its reason. All others compare codes (diag.Code,
// trace.Cause), typed errors or fields: a text is for people, and its wording may be improved at any time.
var readers = map[string]string{
	"internal/source/mistake.go yamlMistake":  "the YAML library has no types for its errors: what is wrong, and the line, stand in the text only",
	"internal/source/mistake.go lineIn":       "the YAML library has no types for its errors: the line stands in the text only",
	"internal/celrule/types.go ObjectToTyped": "the type converter of client-go has no type for the error of a kind without a type",
}

// messageFields are the fields that hold texts for people: of diagnostics, results, verdicts and notes.
var messageFields = []string{"Summary", "Message", "Hint", "Error"}

// readingCalls are the functions that search a text.
var readingCalls = map[string][]string{
	"strings": {"Contains", "ContainsAny", "ContainsFunc", "Count", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "Fields", "HasPrefix", "HasSuffix",
		"Index", "LastIndex", "Split", "SplitN", "SplitAfter", "TrimPrefix", "TrimSuffix"},
	"regexp": {"MatchString"},
	"fmt":    {"Sscanf", "Sscan"},
}

// readingMethods are the methods of regular expressions that search a text.
var readingMethods = []string{"MatchString", "FindString", "FindStringIndex", "FindStringSubmatch", "FindAllString", "FindAllStringSubmatch"}

// TestNoCodeReadsProse parses every file that is not a test and rejects code that decides by the text of an error or a message.
func TestNoCodeReadsProse(t *testing.T) {
	used := map[string]bool{}
	for _, root := range []string{"internal", "cmd", "api"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			for _, r := range proseReadIn(f) {
				reader := filepath.ToSlash(path) + " " + r.function
				if readers[reader] != "" {
					used[reader] = true
					continue
				}
				t.Errorf("%s: %s reads the text of an error or a message (%s). Compare a code, a typed error or a field; a text of a library that has "+
					"neither is a row of readers in prose_test.go", files.Position(r.at), reader, r.what)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for reader := range readers {
		if !used[reader] {
			t.Errorf("%s reads no text: remove its row in prose_test.go", reader)
		}
	}
}

// fieldWords begin the texts of mistakes in fields. The methods of diag.List write them, with the code from which admission knows where
// the text names its field.
var fieldWords = []string{"Required value", "Invalid value: ", "Unsupported value: ", "Forbidden: ", "Too long: "}

// TestMistakesAboutFieldsHaveCodes rejects texts that begin like a mistake in a field but have no code.
func TestMistakesAboutFieldsHaveCodes(t *testing.T) {
	err := filepath.WalkDir("internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == filepath.Join("internal", "diag", "field.go") {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			for _, words := range fieldWords {
				if strings.HasPrefix(lit.Value[1:], words) {
					t.Errorf("%s: %q: add the mistake with a method of diag.List: Required, Invalid, Unsupported, Forbidden or TooLong", files.Position(lit.Pos()), words)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestProseReadersAreFound runs the check on code that reads texts, and on code that only looks like it.
func TestProseReadersAreFound(t *testing.T) {
	const found, fine = "found", ""
	for body, want := range map[string]string{
		`_ = strings.Contains(err.Error(), "x")`:                                                 found,
		`_ = strings.HasPrefix(d.Summary, "x")`:                                                  found,
		`_ = err.Error() == "x"`:                                                                 found,
		`_ = r.Message != textGone`:                                                              found,
		`switch err.Error() { case "x": }`:                                                       found,
		`switch { case strings.HasSuffix(p.Message, "x"): }`:                                     found,
		`text := err.Error(); _ = strings.Contains(text, "x")`:                                   found,
		`text := "a" + d.Summary; text = strings.ToLower(text); _ = strings.Contains(text, "x")`: found,
		`_ = pattern.MatchString(d.Summary)`:                                                     found,
		`for _, l := range strings.Split(e.Error(), "\n") { print(l) }`:                          found,
		`_ = r.Message == ""`:                                                                    fine,
		`_ = a.Message == b.Message`:                                                             fine,
		`_ = d.Code == diag.Required`:                                                            fine,
		`_ = strings.Contains(rule.Name, "x")`:                                                   fine,
		`_ = strings.TrimSpace(err.Error())`:                                                     fine,
		`text := rule.Name; _ = strings.Contains(text, err.Error())`:                             fine,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() {\n"+body+"\n}\n", 0)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		got := fine
		if len(proseReadIn(f)) > 0 {
			got = found
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

// proseRead is a place in the code that decides by a text.
type proseRead struct {
	function string
	what     string
	at       token.Pos
}

// proseReadIn lists the places in a file that decide by a text.
func proseReadIn(f *ast.File) []proseRead {
	var out []proseRead
	imports := map[string]bool{}
	for _, i := range f.Imports {
		name := strings.Trim(i.Path.Value, `"`)
		name = name[strings.LastIndex(name, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = true
	}
	for _, d := range f.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		s := proseScan{texts: map[string]bool{}, imports: imports}
		for range 2 { // a variable may be set after the loop in which it is read
			ast.Inspect(function.Body, s.assignments)
		}
		ast.Inspect(function.Body, func(n ast.Node) bool {
			if what := s.reads(n); what != "" {
				out = append(out, proseRead{function.Name.Name, what, n.Pos()})
			}
			return true
		})
	}
	return out
}

// proseScan records which variables of a function hold texts for people.
type proseScan struct {
	texts   map[string]bool
	imports map[string]bool // names of packages
}

// assignments records the variables that are set to a text.
func (s *proseScan) assignments(n ast.Node) bool {
	set, ok := n.(*ast.AssignStmt)
	if !ok || len(set.Lhs) != len(set.Rhs) {
		return true
	}
	for i, to := range set.Lhs {
		if name, ok := to.(*ast.Ident); ok && s.isText(set.Rhs[i]) {
			s.texts[name.Name] = true
		}
	}
	return true
}

// isText reports whether the expression is a text for people, or built from one.
func (s *proseScan) isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return s.texts[e.Name]
	case *ast.ParenExpr:
		return s.isText(e.X)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (s.isText(e.X) || s.isText(e.Y))
	case *ast.SelectorExpr:
		of, ok := e.X.(*ast.Ident)
		return slices.Contains(messageFields, e.Sel.Name) && !(ok && s.imports[of.Name])
	case *ast.CallExpr:
		selector, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		if selector.Sel.Name == "Error" && len(e.Args) == 0 {
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok && of.Name == "strings" {
			return len(e.Args) > 0 && s.isText(e.Args[0])
		}
	}
	return false
}

// reads describes how n decides by a text; empty if it does not.
func (s *proseScan) reads(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		selector, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || len(n.Args) == 0 {
			return ""
		}
		name, text := selector.Sel.Name, n.Args[0]
		of, _ := selector.X.(*ast.Ident)
		switch {
		case of != nil && slices.Contains(readingCalls[of.Name], name):
			if of.Name == "regexp" && len(n.Args) > 1 {
				text = n.Args[1]
			}
		case slices.Contains(readingMethods, name):
		default:
			return ""
		}
		if s.isText(text) {
			return fmt.Sprintf("call of %s", name)
		}
	case *ast.BinaryExpr:
		if n.Op != token.EQL && n.Op != token.NEQ {
			return ""
		}
		left, right := s.isText(n.X), s.isText(n.Y)
		if left && isKnownText(n.Y) || right && isKnownText(n.X) {
			return "comparison"
		}
	case *ast.SwitchStmt:
		if n.Tag != nil && s.isText(n.Tag) {
			return "switch"
		}
	}
	return ""
}

// isKnownText reports whether the expression is a text in the code: a literal that is not empty, or a name.
func isKnownText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING && e.Value != `""`
	case *ast.Ident:
		return e.Name != "nil"
	}
	return false
}
