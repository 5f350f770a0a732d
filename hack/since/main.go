// Command since lists the fields and kinds of the Kubernetes API that are newer than the oldest supported version, with the version that added
// each of them. It compares the Go types of k8s.io/api in the modules of all minor versions:
//
//	go run ./hack/since >internal/schema/since.txt
//
// A line is `group/version Type field minor`, with * for a whole type. With -cel it lists the functions, overloads and macros with which API
// servers evaluate CEL expressions, with the first and the last version that has each of them:
//
//	go run ./hack/since -cel >internal/cel/env/testdata/functions.tsv
//
// Modules that are not in the cache are downloaded.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/kubeversion"
)

// patches are the modules to compare, by minor version. A field that a patch release added counts for its minor version.
var patches = map[kubeversion.Minor]string{
	30: "v0.30.14", 31: "v0.31.9", 32: "v0.32.0", 33: "v0.33.5", 34: "v0.34.1", 35: "v0.35.3", 36: "v0.36.3", 37: "v0.37.2",
}

// name is a type of a package, or one of its fields; the field of a type itself is *.
type name struct{ pkg, typ, field string }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-cel" {
		if err := functions(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	since := map[name]kubeversion.Minor{}
	for v := kubeversion.Oldest; v <= kubeversion.Newest; v++ {
		dir, err := download(patches[v])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		now := map[name]bool{}
		if err := read(dir, now); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for n := range now {
			if _, known := since[n]; !known {
				since[n] = v
			}
		}
		maps.DeleteFunc(since, func(n name, _ kubeversion.Minor) bool { return !now[n] }) // what is gone is not known to the newest types
	}
	for _, n := range slices.SortedFunc(maps.Keys(since), func(a, b name) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.typ, b.typ), strings.Compare(a.field, b.field))
	}) {
		of := since[name{n.pkg, n.typ, "*"}]
		if v := since[n]; v > kubeversion.Oldest && (n.field == "*" || v > of) {
			fmt.Println(n.pkg, n.typ, n.field, v)
		}
	}
}

// download returns the folder of a version of k8s.io/api.
func download(version string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", "k8s.io/api@"+version)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if more := json.Unmarshal(out, &module); more != nil || module.Dir == "" {
		return "", fmt.Errorf("download k8s.io/api %s: %v %s", version, err, module.Error)
	}
	return module.Dir, nil
}

// read adds the names of all types below dir.
func read(dir string, to map[name]bool) error {
	files, err := filepath.Glob(dir + "/*/*/types*.go")
	if err != nil {
		return err
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := filepath.Dir(file)
		pkg := filepath.Base(filepath.Dir(folder)) + "/" + filepath.Base(folder)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if t, ok := n.(*ast.TypeSpec); ok {
				if s, ok := t.Type.(*ast.StructType); ok {
					to[name{pkg, t.Name.Name, "*"}] = true
					fields(pkg, t.Name.Name, s, to)
				}
			}
			return true
		})
	}
	return nil
}

func fields(pkg, typ string, s *ast.StructType, to map[name]bool) {
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			continue
		}
		field, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if field != "" && field != "-" {
			to[name{pkg, typ, field}] = true
		}
	}
}
