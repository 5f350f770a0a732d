package ephor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"ephor.invalid/ephor/internal/compile"
)

// These packages may name kinds of policies: the families themselves, the language of one family, the types of the API, and the packages
// that test and measure the program.
var namesKinds = []string{
	"api/...", "internal/family/...", "internal/compile", // the list of families
	"internal/match", "internal/loader", "internal/autogen", "internal/exception", "internal/rule", // the classic language
	"internal/lint",                       // its likely mistakes, each with an example
	"internal/convert", "internal/vapgen", // translate policies of one family into those of another
	"bench/...", "conformance/...", "e2e/...", "examples/...", "robustness/...", "soak/...", "corpus/...", "hack/...", "internal/devcluster", "internal/simulation/...",
	"internal/webhookconf/webhooktest", // random policies of all kinds
}

// stillNamesKinds are the files that name a kind of a family nevertheless, each with its reason. A reason that begins with "open" marks
// work to do: a new family may need a change there. Remove a file when it no longer names a kind.
var stillNamesKinds = map[string]string{
	"internal/app/flags.go":                   "a flag of the command line, with Kyverno's name",
	"internal/app/variables.go":               "a variable of the environment, with Kyverno's name",
	"internal/cli/convert/command.go":         "a command that writes policies of one family as those of another",
	"internal/cli/convert/output.go":          "as command.go",
	"internal/cli/convert/tests.go":           "as command.go",
	"internal/cli/manifests/fix_policy.go":    "a command for one family",
	"internal/cli/operate/migrate.go":         "an example of a command",
	"internal/cli/reports/rollout.go":         "a command for one family, and its help",
	"internal/cli/reports/rollout_cluster.go": "a command for one family",
	"internal/cli/reports/rollout_replace.go": "it reads whether policies in CEL are ready",
	"internal/kinds/scope.go":                 "the kinds of Kubernetes that live outside of namespaces",
}

// kindWords are the names of kinds, and of their resources, that a text or an identifier must not contain. Policy and policies are also
// ordinary words: they count only if they stand alone.
type kindWords struct {
	alone    []string
	kind     *regexp.Regexp // the text after a match decides, see has
	resource *regexp.Regexp
}

func newKindWords(kinds, resources []string) (w kindWords) {
	var parts, plurals []string
	for _, k := range kinds {
		if k == "Policy" {
			w.alone = append(w.alone, k)
			continue
		}
		parts = append(parts, "["+k[:1]+strings.ToLower(k[:1])+"]"+k[1:])
	}
	for _, r := range resources {
		if r != "policies" {
			plurals = append(plurals, r)
		}
	}
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) }) // the longest first
	w.kind = regexp.MustCompile(strings.Join(parts, "|"))
	w.resource = regexp.MustCompile(`\b(?:` + strings.Join(plurals, "|") + `)\b`)
	return w
}

// has reports whether a text or an identifier names a kind. A longer word is a different one: PolicyReport, clusterpolicyreports.
func (w kindWords) has(text string) bool {
	if slices.Contains(w.alone, text) || w.resource.MatchString(text) {
		return true
	}
	for _, at := range w.kind.FindAllStringIndex(text, -1) {
		rest := text[at[1]:]
		ends := rest == "" || !unicode.IsLower(rune(rest[0])) || rest == "s" || strings.HasPrefix(rest, "s") && !unicode.IsLower(rune(rest[1]))
		if ends && !strings.HasPrefix(rest, "Report") {
			return true
		}
	}
	return false
}

// kindMentions finds the places in a file that name a kind of a family, or import a family. Names of imports, build tags and texts in
// several parts make no difference.
func kindMentions(set *token.FileSet, file *ast.File, words kindWords) (out []string) {
	at := func(n ast.Node, text string) {
		p := set.Position(n.Pos())
		text, _, _ = strings.Cut(strings.ReplaceAll(text, "\n", " "), "metadata:") // only the beginning, because examples are long
		out = append(out, filepath.ToSlash(p.Filename)+":"+strconv.Itoa(p.Line)+": "+text)
	}
	types := map[string]bool{} // the file's names for packages with types of policies
	for _, i := range file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		api := isBelow(p, module+"/api/kyverno") || isBelow(p, module+"/api/policies")
		switch {
		case isBelow(p, module+"/internal/family") && p != module+"/internal/family":
			at(i, "imports "+p)
		case api && name == ".":
			at(i, "imports "+p+" without a name")
		case api:
			types[name] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr:
			if text, ok := literal(n); ok {
				if words.has(text) {
					at(n, strconv.Quote(text))
				}
				return false
			}
		case *ast.BasicLit:
			if text, ok := literal(n); ok && words.has(text) {
				at(n, n.Value)
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && n.Sel.Name == "Policy" && types[x.Name] {
				at(n, x.Name+".Policy")
			}
		case *ast.Ident:
			if n.Name != "Policy" && words.has(n.Name) {
				at(n, n.Name)
			}
		}
		return true
	})
	return out
}

// literal returns the text of concatenated string literals.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return literal(e.X)
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, ok := literal(e.X)
		y, also := literal(e.Y)
		return x + y, ok && also && e.Op == token.ADD
	}
	return "", false
}

// reexports finds the exported names in a file through which other packages would get the name of a kind, or a type of the policies.
func reexports(set *token.FileSet, file *ast.File, words kindWords) (out []string) {
	at := func(name *ast.Ident, value ast.Node) {
		if !name.IsExported() {
			return
		}
		found := false
		ast.Inspect(value, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit, *ast.FuncLit, *ast.CallExpr:
				return false // a value that is computed from kinds is not a name for one
			case *ast.BasicLit:
				text, ok := literal(n)
				found = found || ok && words.has(text)
			case *ast.Ident:
				found = found || n.Name == "Policy" || words.has(n.Name)
			}
			return true
		})
		if found {
			p := set.Position(name.Pos())
			out = append(out, filepath.ToSlash(p.Filename)+":"+strconv.Itoa(p.Line)+": "+name.Name)
		}
	}
	for _, d := range file.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for i, v := range spec.Values {
					if i < len(spec.Names) {
						at(spec.Names[i], v)
					}
				}
			case *ast.TypeSpec:
				if spec.Assign.IsValid() {
					at(spec.Name, spec.Type)
				}
			}
		}
	}
	return out
}

// familyKinds returns the kinds of all families and of the companions of their policies, and their resources.
func familyKinds() (kinds, resources []string) {
	for _, f := range compile.Product.Families() {
		for _, k := range f.Kinds {
			kinds, resources = append(kinds, k.Kind), append(resources, k.Resource)
		}
		for _, c := range f.Companions {
			kinds = append(kinds, c.Kind)
		}
	}
	return kinds, resources
}

// Outside the families no package names a kind of policy, so a new family is a folder and a row.
func TestKindsOfFamilies(t *testing.T) {
	kinds, resources := familyKinds()
	if len(kinds) < 8 {
		t.Fatalf("the families have only the kinds %v", kinds)
	}
	words := newKindWords(kinds, resources)
	found := map[string][]string{}
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		switch dir := path.Dir(name); {
		case !mayNameKinds(dir):
			if mentions := kindMentions(set, file, words); len(mentions) > 0 {
				found[name] = mentions
			}
		case strings.HasPrefix(dir, "internal/") && !strings.HasPrefix(dir, "internal/family/"): // families must not be imported at all
			for _, r := range reexports(set, file, words) {
				t.Errorf("%s is a name for a kind of policy that other packages could use", r)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if stillNamesKinds[name] == "" {
			t.Errorf("these name a kind of policy; ask the descriptor of the family:\n%s", strings.Join(found[name], "\n"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stillNamesKinds)) {
		if len(found[name]) == 0 {
			t.Errorf("%s names no kind of policy any more: take it out of stillNamesKinds", name)
		}
	}
	t.Logf("%d files name kinds of families", len(found))
}

func mayNameKinds(dir string) bool {
	return slices.ContainsFunc(namesKinds, func(p string) bool {
		base, below := strings.CutSuffix(p, "/...")
		return dir == base || below && isBelow(dir, base)
	})
}

// The test above finds all forms of mentions.
func TestKindMentions(t *testing.T) {
	const source = `//go:build never

package p

import (
	"fmt"
	. "ephor.invalid/ephor/internal/family/classic"
	_ "ephor.invalid/ephor/internal/family"
	old "ephor.invalid/ephor/api/kyverno/v1"
	. "ephor.invalid/ephor/api/kyverno/v2"
)

var a = "ClusterPolicy"
var b = "the CleanupPolicy x"
var c = old.ClusterPolicyList{}
var d old.Policy
var e = "Policy"
var f = newCleanupPolicy()
var Policy, text = fmt.Sprint(event.PolicyError), "a Policy is a word, PolicyReports and ClusterPolicyReports are no policies, nor clusterpolicyreports"
type ClusterPolicySpecial int
var g = "Cluster" + ("Pol" + "icy")
var h = "apis/kyverno.io/v1/clusterpolicies"
var i policy.RuleKind = "cleanupPolicy"
`
	words := newKindWords([]string{"ClusterPolicy", "CleanupPolicy", "Policy"}, []string{"clusterpolicies", "policies"})
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range kindMentions(set, file, words) {
		lines = append(lines, strings.Split(m, ":")[1])
	}
	if got, want := strings.Join(lines, " "), "7 10 13 14 15 16 17 18 20 21 22 23"; got != want {
		t.Errorf("found in lines %s, want %s", got, want)
	}
}

// The test finds names through which a package would export a kind.
func TestReexports(t *testing.T) {
	const source = `package p

type Rule = classic.ClusterPolicy
type own struct{ classic.ClusterPolicy }

const (
	Kind = "ClusterPolicy"
	Main = classic.Policy
	hidden = "ClusterPolicy"
	Other = "Pod"
)

var Table = map[string]bool{"ClusterPolicy": true}
var Family = classic.Family
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(reexports(set, file, newKindWords([]string{"ClusterPolicy", "Policy"}, []string{"clusterpolicies"})), " ")
	if want := "p.go:3: Rule p.go:7: Kind p.go:8: Main"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}
