package ephor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
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
