package run

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Every node of ours that has Eval also has Exec, which the library calls on the parts of its nodes. A node without it would inherit the Exec of
// the library's node that it embeds, and its limits would not be applied.
func TestNodes(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]map[string]bool{"Eval": {}, "Exec": {}}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			method, ok := d.(*ast.FuncDecl)
			if !ok || method.Recv == nil || has[method.Name.Name] == nil {
				continue
			}
			of := method.Recv.List[0].Type
			if p, ok := of.(*ast.StarExpr); ok {
				of = p.X
			}
			has[method.Name.Name][of.(*ast.Ident).Name] = true
		}
	}
	if len(has["Eval"]) < 10 {
		t.Fatalf("only %d nodes found", len(has["Eval"]))
	}
	for name := range has["Eval"] {
		if !has["Exec"][name] {
			t.Errorf("the node %s has no Exec", name)
		}
	}
}
