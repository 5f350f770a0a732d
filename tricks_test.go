package ephor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notTricks are the uses that are there for what they do, and not for time or memory.
var notTricks = map[string]string{
	"bench/charges/measure.go:threadTime":            "the clock of a thread, for measurements",
	"internal/http1/ended_linux.go:endedOf":          "whether the client has closed the connection, which net does not tell",
	"internal/lifecycle/garbage.go:afterCollections": "runs after each collection, for which the runtime has no other hook",
}

var (
	numbered    = regexp.MustCompile(`\d ?(×|%)`)
	benchmarked = regexp.MustCompile(`\bBenchmark[A-Z]\w*`)
)

// TestTricksCarryTheirNumber finds code that goes around the language or the runtime for speed: unsafe, raw system calls, linkname, finalizers
// and pools. The doc comment of its declaration says what it gives, as a ratio, and which benchmark measures that (CONTRIBUTING.md).
func TestTricksCarryTheirNumber(t *testing.T) {
	benchmarks := map[string]bool{}
	type trick struct{ at, what, doc string }
	var tricks []trick
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != "." || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && strings.HasSuffix(path, "_test.go") {
				if strings.HasPrefix(f.Name.Name, "Benchmark") {
					benchmarks[f.Name.Name] = true
				}
				continue
			}
			for name, part := range declared(decl) {
				if what := trickIn(part.node); what != "" && !strings.HasSuffix(path, "_test.go") {
					tricks = append(tricks, trick{filepath.ToSlash(path) + ":" + name, what, part.doc})
				}
			}
		}
		for _, group := range file.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//go:linkname") {
					tricks = append(tricks, trick{filepath.ToSlash(path), "linkname", group.Text()})
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, x := range tricks {
		if _, is := notTricks[x.at]; is {
			known[x.at] = true
			continue
		}
		by := benchmarked.FindString(x.doc)
		if !numbered.MatchString(x.doc) || !benchmarks[by] {
			t.Errorf("%s uses %s: its doc comment says what that gives, as a ratio, and by which benchmark; or remove it", x.at, x.what)
		}
	}
	for at := range notTricks {
		if !known[at] {
			t.Errorf("tricks_test.go: %s uses no trick any more: remove the line", at)
		}
	}
}

type documented struct {
	node ast.Node
	doc  string
}

// declared returns the parts of a declaration by name, with their doc comments.
func declared(d ast.Decl) map[string]documented {
	out := map[string]documented{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		out[d.Name.Name] = documented{d, d.Doc.Text()}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out[s.Name.Name] = documented{s, d.Doc.Text() + s.Doc.Text()}
			case *ast.ValueSpec:
				out[s.Names[0].Name] = documented{s, d.Doc.Text() + s.Doc.Text()}
			}
		}
	}
	return out
}

// trickIn returns the trick in a part of the code; empty for none.
func trickIn(n ast.Node) (what string) {
	ast.Inspect(n, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, _ := s.X.(*ast.Ident)
		switch {
		case pkg != nil && pkg.Name == "unsafe":
			what = "unsafe"
		case pkg != nil && pkg.Name == "sync" && s.Sel.Name == "Pool":
			what = "sync.Pool"
		case pkg != nil && pkg.Name == "runtime" && slices.Contains([]string{"SetFinalizer", "AddCleanup"}, s.Sel.Name):
			what = "a finalizer"
		case s.Sel.Name == "SyscallConn" || strings.HasPrefix(s.Sel.Name, "RawSyscall") || pkg != nil && pkg.Name == "syscall" && strings.HasPrefix(s.Sel.Name, "Syscall"):
			what = "raw system calls"
		}
		return true
	})
	return what
}
