// Command mergekeys writes the table of lists that a strategic merge patch merges instead of replacing, as the
// Kubernetes API types declare them (struct tags patchStrategy and patchMergeKey, comment +listMapKey).
//
//	go run ./hack/mergekeys > internal/patch/mergekeys.txt
//
// It reads the source of the modules in go.mod, so that no type registry is needed at run time.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
)

// modules hold the API types; every package below them with a GroupName is read.
var modules = []string{"k8s.io/api", "k8s.io/apiextensions-apiserver"}

const metaPackage = "k8s.io/apimachinery/pkg/apis/meta/v1"

func main() {
	log.SetFlags(0)
	t := &table{structs: map[string]*structType{}}
	for _, m := range modules {
		dir := moduleDir(m)
		if m == "k8s.io/apiextensions-apiserver" {
			t.readPackage(filepath.Join(dir, "pkg/apis/apiextensions/v1"), m+"/pkg/apis/apiextensions/v1")
			continue
		}
		versions, err := filepath.Glob(filepath.Join(dir, "*", "v*"))
		check(err)
		for _, d := range versions {
			rel, err := filepath.Rel(dir, d)
			check(err)
			t.readPackage(d, m+"/"+filepath.ToSlash(rel))
		}
	}
	t.readPackage(filepath.Join(moduleDir("k8s.io/apimachinery"), "pkg/apis/meta/v1"), metaPackage)
	os.Stdout.Write(t.write())
}

func moduleDir(path string) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	check(err)
	return strings.TrimSpace(string(out))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// table holds everything that was read, by package path and type name.
type table struct {
	structs map[string]*structType
}

type structType struct {
	name   string // package path.type
	group  string
	kind   bool // it has TypeMeta and ObjectMeta
	fields []field
}

// field is a member whose type is a struct, a list or map of structs, or a list that is merged.
type field struct {
	name   string
	target string // struct type; empty for scalars
	shape  byte   // 0 struct, '[' list, '{' map
	merge  bool
	keys   []string
	inline bool
}

func (t *table) readPackage(dir, path string) {
	fset := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	check(err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_") || strings.HasSuffix(name, ".pb.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		check(err)
		files = append(files, f)
	}
	group, found := groupName(files)
	if !found {
		return
	}
	for _, f := range files {
		imports := map[string]string{}
		for _, i := range f.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			alias := filepath.Base(p)
			if i.Name != nil {
				alias = i.Name.Name
			}
			imports[alias] = p
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			st := &structType{name: path + "." + spec.Name.Name, group: group}
			hasType, hasMeta := false, false
			for _, member := range s.Fields.List {
				fd, ok := t.field(member, path, imports)
				if !ok {
					continue
				}
				switch fd.target {
				case metaPackage + ".TypeMeta":
					hasType = true
					continue
				case metaPackage + ".ObjectMeta":
					hasMeta = hasMeta || fd.name == "metadata"
				}
				st.fields = append(st.fields, fd)
			}
			st.kind = hasType && hasMeta
			t.structs[st.name] = st
			return true
		})
	}
}

// groupName finds the constant GroupName of an API package.
func groupName(files []*ast.File) (name string, found bool) {
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Names) != 1 || v.Names[0].Name != "GroupName" || len(v.Values) != 1 {
				return true
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				name, found = strings.Trim(lit.Value, `"`), true
			}
			return true
		})
	}
	return name, found
}

func (t *table) field(m *ast.Field, path string, imports map[string]string) (f field, ok bool) {
	if m.Tag == nil {
		return f, false
	}
	tag := reflect.StructTag(strings.Trim(m.Tag.Value, "`"))
	name, options, _ := strings.Cut(tag.Get("json"), ",")
	f.name = name
	f.inline = name == "" && (strings.Contains(options, "inline") || len(m.Names) == 0)
	if name == "-" || name == "" && !f.inline {
		return f, false
	}
	for _, s := range strings.Split(tag.Get("patchStrategy"), ",") {
		f.merge = f.merge || s == "merge"
	}
	if key := tag.Get("patchMergeKey"); key != "" {
		f.keys = []string{key}
	}
	if m.Doc != nil {
		var keys []string
		for _, c := range m.Doc.List {
			if _, key, found := strings.Cut(c.Text, "+listMapKey="); found {
				keys = append(keys, strings.TrimSpace(key))
			}
		}
		if len(keys) > 0 && len(f.keys) > 0 {
			f.keys = keys
		}
	}
	e := m.Type
	if star, isPtr := e.(*ast.StarExpr); isPtr {
		e = star.X
	}
	switch x := e.(type) {
	case *ast.ArrayType:
		f.shape, e = '[', x.Elt
	case *ast.MapType:
		f.shape, e = '{', x.Value
	}
	if star, isPtr := e.(*ast.StarExpr); isPtr {
		e = star.X
	}
	switch x := e.(type) {
	case *ast.Ident:
		if ast.IsExported(x.Name) {
			f.target = path + "." + x.Name
		}
	case *ast.SelectorExpr:
		if pkg, isIdent := x.X.(*ast.Ident); isIdent {
			f.target = imports[pkg.Name] + "." + x.Sel.Name
		}
	}
	if f.merge && f.shape != '[' {
		f.merge = false // maps are always merged
	}
	return f, f.merge || f.target != ""
}

// flat returns the struct's fields, including those of inlined structs.
func (t *table) flat(s *structType) []field {
	var out []field
	for _, f := range s.fields {
		if f.inline {
			if in := t.structs[f.target]; in != nil {
				out = append(out, t.flat(in)...)
			}
			continue
		}
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].name < out[j].name })
	return out
}

// relevant finds the structs from which a merged list can be reached.
func (t *table) relevant() map[string]bool {
	rel := map[string]bool{}
	for changed := true; changed; {
		changed = false
		for name, s := range t.structs {
			if rel[name] {
				continue
			}
			for _, f := range t.flat(s) {
				if f.merge || rel[f.target] {
					rel[name], changed = true, true
					break
				}
			}
		}
	}
	return rel
}

func short(name string) string {
	for _, m := range modules {
		name = strings.TrimPrefix(name, m+"/")
	}
	name = strings.TrimPrefix(name, "pkg/apis/")
	return strings.TrimPrefix(name, "k8s.io/apimachinery/pkg/apis/")
}

func (t *table) write() []byte {
	rel := t.relevant()
	// Only types that a kind reaches are relevant.
	used := map[string]bool{}
	var mark func(name string)
	mark = func(name string) {
		if used[name] || !rel[name] {
			return
		}
		used[name] = true
		for _, f := range t.flat(t.structs[name]) {
			mark(f.target)
		}
	}
	kinds := map[string]string{}
	for name, s := range t.structs {
		if !s.kind || !rel[name] {
			continue
		}
		mark(name)
		pkg, kind, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ".")
		gv := pkg
		if s.group != "" {
			gv = s.group + "/" + pkg
		}
		kinds[gv+"/"+kind] = name
	}
	var b bytes.Buffer
	b.WriteString("# Code generated by hack/mergekeys from the Kubernetes API types; DO NOT EDIT.\n")
	b.WriteString("# type field=Type (an object) field={Type (a map of them) field=[Type (a list that is replaced)\n")
	b.WriteString("#      field=[Type,key,key (a list that is merged by keys) field=[,  (a list of scalars that is merged)\n")
	for _, name := range sorted(used) {
		b.WriteString(short(name))
		for _, f := range t.flat(t.structs[name]) {
			if !f.merge && !used[f.target] {
				continue
			}
			b.WriteString(" " + f.name + "=")
			if f.shape != 0 {
				b.WriteByte(f.shape)
			}
			if used[f.target] {
				b.WriteString(short(f.target))
			}
			if f.merge {
				if len(f.keys) == 0 {
					b.WriteString(",")
				}
				for _, k := range f.keys {
					b.WriteString("," + k)
				}
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("# kinds\n")
	names := make([]string, 0, len(kinds))
	for k := range kinds {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		fmt.Fprintf(&b, "@%s %s\n", k, short(kinds[k]))
	}
	return b.Bytes()
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
