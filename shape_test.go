package ephor_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rooms are the packages of which loops are made. They hold plans and functions that reconcile: what runs them, repeats them and waits is the
// kit (internal/controller), by the rows of internal/app/controllers.go.
var rooms = []string{
	"webhookconf", "vapgen", "certs", "secretpath", "scan", "reports", "ephemeral", "cleanup", "ttl", "globalctx", "status", "decision", "failopen",
	"control", "updaterequest", "discovery",
}

// goroutines are the files of rooms that start a goroutine or a timer all the same, each with the reason.
var goroutines = map[string]string{
	"secretpath/guard.go":             "one read of the Secret for all requests that wait for it",
	"scan/loop.go":                    "objects of a page are evaluated in parallel",
	"discovery/discovery.go":          "one fetch for all that wait for it",
	"discovery/version.go":            "one fetch for all that wait a moment for it",
	"updaterequest/work.go":           "Parallel, for rules of an UpdateRequest",
	"updaterequest/enqueue/writer.go": "a request waits for the writes of its work, in parallel",
	"decision/run.go":                 "writes what requests left behind, until the process ends",
	"decision/store/receiver.go":      "the server of the store: deletes old decisions while it is open",
	"decision/store/remote.go":        "pauses between attempts to send what requests left behind",
	"decision/store/sqlite.go":        "the file is opened and merged beside the requests",
	"decision/tidy.go":                "deletes old decisions while a store is open",
}

// TestRoomsStartNothing: a room starts no goroutine and no timer, so that the kit alone decides when loops run, pause and end.
func TestRoomsStartNothing(t *testing.T) {
	used := map[string]bool{}
	for _, room := range rooms {
		each(t, filepath.Join("internal", room), func(file string, position func(ast.Node) string, node ast.Node) {
			what := ""
			switch n := node.(type) {
			case *ast.GoStmt:
				what = "a go statement"
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				switch {
				case !ok:
				case s.Sel.Name == "Go":
					what = "a goroutine of a group"
				case name(s.X) == "time" && slices.Contains([]string{"After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}, s.Sel.Name):
					what = "time." + s.Sel.Name
				}
			}
			short := strings.TrimPrefix(filepath.ToSlash(file), "internal/")
			switch {
			case what == "":
			case goroutines[short] != "":
				used[short] = true
			default:
				t.Errorf("%s: %s: let a row of internal/app/controllers.go repeat the work (a Reconcile that returns when it is due again), or list the file with its reason in shape_test.go", position(node), what)
			}
		})
	}
	for file := range goroutines {
		if !used[file] {
			t.Errorf("%s starts nothing any more: delete its line in shape_test.go", file)
		}
	}
}

// TestOnePlaceListsAndWatches: only the kit follows continue tokens, reads the events of a watch, or makes a reflector or an informer. What
// each copy of such a loop lacked was the cause of most faults.
func TestOnePlaceListsAndWatches(t *testing.T) {
	wrong := []string{"ResultChan", "NewReflector", "NewReflectorWithOptions", "NewInformer", "NewInformerWithOptions", "NewSharedIndexInformer", "NewFilteredMetadataInformer", "NewSharedInformerFactory"}
	each(t, "internal", func(file string, position func(ast.Node) string, node ast.Node) {
		if within(file, "internal/controller", "internal/devcluster") {
			return
		}
		switch n := node.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(wrong, s.Sel.Name) {
				t.Errorf("%s: %s: use controller.Reflector or controller.Watch", position(node), s.Sel.Name)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				s, ok := left.(*ast.SelectorExpr)
				if ok && s.Sel.Name == "Continue" && i < len(n.Rhs) && !strings.HasPrefix(name(n.Rhs[i]), "o.") {
					t.Errorf("%s: a loop over continue tokens: use controller.Pages", position(node))
				}
			}
		}
	})
}

// constructors are functions that make a client or a mapper whose discovery has no time limit, by the path of their package.
var constructors = map[string][]string{
	"sigs.k8s.io/controller-runtime/pkg/client":         {"New", "NewWithWatch"},
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil": {"NewDynamicRESTMapper"},
	"k8s.io/client-go/restmapper":                       {"NewDeferredDiscoveryRESTMapper", "NewDiscoveryRESTMapper", "GetAPIGroupResources"},
	"k8s.io/client-go/discovery":                        {"NewDiscoveryClient", "NewDiscoveryClientForConfigAndClient"},
}

// TestDiscoveryIsLimited: only internal/discovery makes clients that ask the API server for its kinds, and managers have its mapper, so that
// discovery that is never answered holds nothing up for ever.
func TestDiscoveryIsLimited(t *testing.T) {
	var imported map[string]string // path of a package by its name in the file
	managers := 0
	each(t, "internal", func(file string, position func(ast.Node) string, node ast.Node) {
		switch n := node.(type) {
		case *ast.File:
			imported = map[string]string{}
			for _, i := range n.Imports {
				at, _ := strconv.Unquote(i.Path.Value)
				short := path.Base(at)
				if i.Name != nil {
					short = i.Name.Name
				}
				imported[short] = at
			}
		case *ast.SelectorExpr:
			if slices.Contains(constructors[imported[name(n.X)]], n.Sel.Name) && !within(file, "internal/discovery", "internal/devcluster") {
				t.Errorf("%s: %s: use discovery.NewClient, NewMapper or NewResources, whose requests for kinds end", position(n), name(n))
			}
		case *ast.CompositeLit:
			s, ok := n.Type.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "Options" || !slices.Contains([]string{"sigs.k8s.io/controller-runtime/pkg/manager", "sigs.k8s.io/controller-runtime/pkg/cluster"}, imported[name(s.X)]) {
				return
			}
			managers++
			for _, e := range n.Elts {
				if f, ok := e.(*ast.KeyValueExpr); ok && name(f.Key) == "MapperProvider" && name(f.Value) == "discovery.NewMapper" {
					return
				}
			}
			t.Errorf("%s: a manager without MapperProvider: discovery.NewMapper", position(n))
		}
	})
	if managers == 0 {
		t.Error("no manager was found")
	}
}

// TestRowsAreInTheTables: the tables of internal/app/controllers.go, and the functions that they call, are the only rows that run.
func TestRowsAreInTheTables(t *testing.T) {
	allowed := []string{"internal/controller", "internal/telemetry", "internal/app"} // the server of metrics starts before everything else; base.rows and process.first are in the tables
	each(t, "internal", func(file string, position func(ast.Node) string, node ast.Node) {
		if s, ok := node.(*ast.SelectorExpr); ok && s.Sel.Name == "RunRows" && !within(file, allowed...) {
			t.Errorf("%s: a row that is in no table", position(node))
		}
	})
	text, err := os.ReadFile("internal/app/controllers.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range []string{"base", "admitting", "background", "reporting", "cleaning"} {
		if !strings.Contains(string(text), " *"+process+") rows() []controller.Row {") {
			t.Errorf("internal/app/controllers.go has no table of %s", process)
		}
	}
}

func within(file string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return isBelow(filepath.ToSlash(filepath.Dir(file)), tree) })
}

// name returns the text of a chain of names.
func name(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return name(x.X) + "." + x.Sel.Name
	}
	return ""
}

// each calls f for each node of the files below a folder, without tests.
func each(t *testing.T, root string, f func(file string, position func(ast.Node) string, node ast.Node)) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		position := func(n ast.Node) string { return fmt.Sprintf("%s:%d", file, set.Position(n.Pos()).Line) }
		ast.Inspect(parsed, func(n ast.Node) bool {
			if n != nil {
				f(file, position, n)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
