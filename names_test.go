package ephor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/names"
)

// The page annotations.md lists every name below the domain, and only internal/names spells the domain.
func TestOwnNames(t *testing.T) {
	page, err := os.ReadFile("docs/operating/annotations.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = filepath.WalkDir("internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				domain, ok := n.X.(*ast.SelectorExpr)
				if !ok || domain.Sel.Name != "Domain" {
					return true
				}
				if text, ok := n.Y.(*ast.BasicLit); ok {
					name, _ := strconv.Unquote(text.Value)
					if found++; !strings.Contains(string(page), "`"+names.Domain+name+"`") {
						t.Errorf("docs/operating/annotations.md lacks %s%s, which %s has", names.Domain, name, path)
					}
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && strings.HasPrefix(text, names.Domain) && !strings.HasPrefix(path, "internal/names/") && !strings.Contains(path, "webhooktest") {
					t.Errorf("%s spells %q: write names.Domain + %q", path, text, strings.TrimPrefix(text, names.Domain))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 20 {
		t.Errorf("%d names are found", found)
	}
}

// vagueVerbs need an object to say what a function does (docs/contributing/glossary.md).
var vagueVerbs = []string{"take", "holds", "keep", "note", "ask"}

// The rules of the glossary: one type of a vague name, no vague verb as the whole name of a function or exported method, no results less and
// wrong.
func TestGlossary(t *testing.T) {
	types := map[string][]string{"place": nil, "entry": nil}
	functions := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"testdata", "build", "bin", ".git"}, d.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		internal := strings.HasPrefix(filepath.ToSlash(path), "internal/")
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if at, vague := types[n.Name.Name]; vague {
					types[n.Name.Name] = append(at, files.Position(n.Pos()).String())
				}
			case *ast.FuncDecl:
				functions++
				name := n.Name.Name
				if internal && (n.Recv == nil || n.Name.IsExported()) && slices.Contains(vagueVerbs, strings.ToLower(name)) {
					t.Errorf("%s: %s says not what it does with what: docs/contributing/glossary.md has the verbs", files.Position(n.Pos()), name)
				}
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					id, _ := left.(*ast.Ident)
					_, call := n.Rhs[0].(*ast.CallExpr)
					if call && internal && !strings.HasSuffix(path, "_test.go") && id != nil && (id.Name == "less" || id.Name == "wrong") {
						t.Errorf("%s: name %s after what it holds", files.Position(n.Pos()), id.Name)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if functions < 5000 {
		t.Errorf("%d functions are found", functions)
	}
	for name, at := range types {
		if len(at) > 1 {
			t.Errorf("%d types have the name %s: name them after what they hold (docs/contributing/glossary.md):\n%s", len(at), name, strings.Join(at, "\n"))
		}
	}
}
